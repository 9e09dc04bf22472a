"""Requests for functions of a binary: to the cache, else to a process, one at a time on a node."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import suppress

import msgspec

from chimbuko.capture.symbols.cache import BinarySymbols, Request, SymbolCache, wanted_places
from chimbuko.core.errors import ServiceError
from chimbuko.core.files import unnamed_file
from chimbuko.runtime.process.nameholding import Held, hold

MODULE = "chimbuko.capture.symbols.lookup"
LONGEST_S = 60.0
"""Longest look-up, by the clock; one that takes longer is given up, where it has the names."""
LONGEST_WITHOUT_NAMES_S = 600.0
"""Longest look-up that has no names yet, and so has hardly had a core: with 8 ranks and their analysis on two
cores one took more than 60 s. Its CPU time is limited besides.
"""
OTHERS_WAIT_S = LONGEST_WITHOUT_NAMES_S + 10.0
"""Longest wait for another process that looks up the same binary, before one does it as well: that would only
take the first one's core.
"""
STARVED = "it could not be read in time, as the node was busy; leave a core free for the analysis"
TOO_LARGE = (
    "its symbols take too long to read; link it with less debug information (-g1), or strip it of that"
)

Pending = Generator[None, None, BinarySymbols]
"""Pending answer: a generator that yields until it returns the answer; pause between two steps."""


def ask(request: Request, cache: SymbolCache) -> Pending:
    """Return the functions of a binary; the answer's ``problem`` says why some are missing."""
    patience_s = time.monotonic() + OTHERS_WAIT_S
    seen: object = ()
    while True:
        stamp = cache.stamp(request.key)
        if stamp != seen and (found := _kept(request, cache)) is not None:
            return found
        seen = stamp
        is_late = time.monotonic() > patience_s
        claim = None if is_late else _claim(request.key)
        # Another process may have stored its answer and released its claim between the two checks.
        if (claim is not None or is_late) and cache.stamp(request.key) == seen:
            try:
                return (yield from _looked_up(request, cache, claim))
            finally:
                if claim is not None:
                    claim.close()
        if claim is None:
            yield
        else:
            claim.close()


def _kept(request: Request, cache: SymbolCache) -> BinarySymbols | None:
    """Return what the cache has, if it has all that is asked for."""
    known = cache.load(request.key)
    is_enough = known is not None and known.places.keys() >= set(wanted_places(request, known))
    return known if is_enough else None


def _claim(key: str) -> Held | None:
    """Claim to be the only process on the node that looks up a binary; return None while another one does."""
    with suppress(ServiceError):
        return hold(f"symbols {key}")
    return None


def _looked_up(request: Request, cache: SymbolCache, claim: Held | None) -> Pending:
    question, answer = _memory_file(msgspec.msgpack.encode(request)), _memory_file()
    try:
        is_complete, code = yield from _run(question, answer, claim)
        known = _answer(answer)
        found = known or BinarySymbols(problem=TOO_LARGE if code == -signal.SIGXCPU else STARVED)
    except OSError as error:
        return BinarySymbols(problem=f"no process can be started ({error.strerror})")
    finally:
        os.close(question)
        os.close(answer)
    if is_complete and code and (known is not None or code == -signal.SIGXCPU):
        # The look-up would fail in the same way for others, so that is cached, too. One that was killed
        # before it knew anything, as where memory ran out, may be tried again.
        found.is_without_lines = True
        cache.save(request.key, found)
    return found


def _run(question: int, answer: int, claim: Held | None) -> Generator[None, None, tuple[bool, int | None]]:
    """Run the look-up; return whether the process ended of itself, and its exit code."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", MODULE],
        stdin=question,
        stdout=answer,
        # Threads of the libraries would only take memory.
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        # The claim holds as long as the process lives, even if this one has ended.
        pass_fds=() if claim is None else claim.descriptors,
    )
    begun_s = time.monotonic()
    try:
        while process.poll() is None:
            running_s = time.monotonic() - begun_s
            if running_s > LONGEST_WITHOUT_NAMES_S or (running_s > LONGEST_S and _answer(answer) is not None):
                break
            yield
        return process.poll() is not None, process.returncode
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _memory_file(content: bytes = b"") -> int:
    file = unnamed_file("chimbuko symbols")
    os.pwrite(file, content, 0)
    return file


def _answer(file: int) -> BinarySymbols | None:
    data = os.pread(file, os.fstat(file).st_size, 0)
    if data[:32] != hashlib.sha256(data[32:]).digest():
        return None
    return msgspec.msgpack.decode(data[32:], type=BinarySymbols)
