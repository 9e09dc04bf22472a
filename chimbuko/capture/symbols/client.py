"""Asks for functions of a binary: the cache, else a process that looks them up, one on the node at a time."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import suppress

import msgspec

from chimbuko.capture.symbols.cache import SymbolCache
from chimbuko.capture.symbols.requests import BinarySymbols, Request, wanted_places
from chimbuko.core.errors import ServiceError
from chimbuko.runtime.process.nameholding import Held, hold

MODULE = "chimbuko.capture.symbols.lookup"
OTHERS_WAIT_S = 30.0
"""So long somebody else's looking up is waited for, before one does it as well."""
LONGEST_S = 60.0
"""A look-up that takes longer, by the clock, is given up."""
TOO_LONG = "it takes too long to read; link it with -no-pie"

Pending = Generator[None, None, BinarySymbols]
"""Goes on when it is asked again; each time there is nothing yet, a moment should pass."""


def ask(request: Request, cache: SymbolCache) -> Pending:
    """All that is known of a binary; its ``problem`` says why it is not more."""
    patience_s = time.monotonic() + OTHERS_WAIT_S
    seen: object = ()
    while True:
        stamp = cache.stamp(request.key)
        if stamp != seen and (found := _kept(request, cache)) is not None:
            return found
        seen = stamp
        is_late = time.monotonic() > patience_s
        claim = None if is_late else _claim(request.key)
        # Between the two looks somebody may have kept it, and let go.
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
    """What the cache has, if that is all that is asked for."""
    known = cache.load(request.key)
    is_enough = known is not None and known.places.keys() >= set(wanted_places(request, known))
    return known if is_enough else None


def _claim(key: str) -> Held | None:
    """Be the only one on the node that looks something up in a binary; None while another one does."""
    with suppress(ServiceError):
        return hold(f"symbols {key}")
    return None


def _looked_up(request: Request, cache: SymbolCache, claim: Held | None) -> Pending:
    question, answer = _memory_file(msgspec.msgpack.encode(request)), _memory_file()
    try:
        is_complete, code = yield from _run(question, answer, claim)
        found = _answer(answer) or BinarySymbols(problem=TOO_LONG)
    except OSError as error:
        return BinarySymbols(problem=f"no process can be started ({error.strerror})")
    finally:
        os.close(question)
        os.close(answer)
    if is_complete and code:
        # It would end in the same way for the others.
        found.is_without_lines = True
        cache.save(request.key, found)
    return found


def _run(question: int, answer: int, claim: Held | None) -> Generator[None, None, tuple[bool, int | None]]:
    """Whether the process ended of itself, and its exit code."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", MODULE],
        stdin=question,
        stdout=answer,
        # Its threads would each take memory for nothing.
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        # While it lives nobody else begins, even if we do not.
        pass_fds=() if claim is None else claim.descriptors,
    )
    deadline_s = time.monotonic() + LONGEST_S
    try:
        while process.poll() is None and time.monotonic() < deadline_s:
            yield
        return process.poll() is not None, process.returncode
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _memory_file(content: bytes = b"") -> int:
    file = os.memfd_create("chimbuko symbols")
    os.pwrite(file, content, 0)
    return file


def _answer(file: int) -> BinarySymbols | None:
    data = os.pread(file, os.fstat(file).st_size, 0)
    if data[:32] != hashlib.sha256(data[32:]).digest():
        return None
    return msgspec.msgpack.decode(data[32:], type=BinarySymbols)
