"""Look-up of functions in one binary, as a process of its own.

Files of symbols are large, and may be damaged in any way: in a process of its own no error harms others, and
limits of the kernel end a look-up that takes too long or too much memory. The request comes on the standard
input, and the answer goes to the standard output, both files in memory: first from the symbol table alone,
then over that with files and lines, so that the names are there even if the time ends before the lines are.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import msgspec

from chimbuko.capture.symbols.binary import Binary, Symbols
from chimbuko.capture.symbols.cache import BinarySymbols, Request, SourceLocation, SymbolCache, wanted_places
from chimbuko.capture.symbols.debuglines import DebugLines

_libc = ctypes.CDLL(None)
_libc.free.argtypes = [ctypes.c_void_p]


def _load() -> Callable[..., int | None] | None:
    """Return the demangling function of the C++ library; None if there is none.

    TAU uses the same function for its own names. ADIOS2 is written in C++, so the library is there.
    """
    with suppress(OSError, AttributeError):
        made: Any = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
        made.restype = ctypes.c_void_p
        made.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
        return cast(Callable[..., int | None], made)
    return None


_demangle = _load()
_OF_MODULE = re.compile(r"__(?P<module>[a-z]\w*?)_MOD_(?P<name>[a-z]\w*)")
"""Symbol that GNU's compiler gives to a procedure in a Fortran module; Fortran's names have no capitals."""


_NESTED = re.compile(r"(?P<name>[A-Za-z_]\w*)\.\d+")
"""Symbol that GNU's compilers give to a procedure that another one contains."""


def demangled(name: str) -> str:
    """Return the readable name of a function.

    A C++ function has its scope and the types of its arguments, a procedure of a Fortran module is
    ``module::procedure``, and any other name stays as it is.
    """
    if found := _OF_MODULE.fullmatch(name):
        return f"{found['module']}::{found['name']}"
    if not name.startswith("_Z") or _demangle is None:
        return name
    status = ctypes.c_int()
    text = _demangle(name.encode(), None, None, ctypes.byref(status))
    if not text:
        return name
    try:
        return ctypes.string_at(text).decode(errors="replace")
    finally:
        _libc.free(text)


MOST_CPU_S = 20
MOST_MEMORY_BYTES = 1 << 30
"""Most memory of the process; the mapped binary does not count."""
MOST_PLACES = 1 << 18
"""Most functions that are cached of one binary, beside those that were asked for."""

STRIPPED = "it has no symbols; link it without -s and do not strip it"


def look_up(request: Request) -> None:
    """Answer a request from the symbol table, then with source lines, and cache the answer."""
    cache = SymbolCache()
    known = cache.load(request.key) or BinarySymbols()
    binary = Binary(Path(request.path))
    debug = _debug_binary(binary, request.key.partition(" ")[0])
    symbols = _best(binary.symbols(), None if debug is None else debug.symbols())
    answer = BinarySymbols(
        is_fixed=binary.is_fixed,
        segments=binary.segments,
        entry_bytes=symbols.entries.tobytes(),
        places=known.places,
        problem="" if symbols.is_whole else STRIPPED,
        is_without_lines=known.is_without_lines,
    )
    wanted = [place for place in wanted_places(request, answer) if place not in known.places]
    answer.places |= {address: _named(symbols, address) for address in wanted}
    _report(answer)
    lines = {} if known.is_without_lines else _lines(binary, debug, wanted, symbols)
    answer.places |= {
        address: _named(symbols, address, place) for address, place in sorted(lines.items())[:MOST_PLACES]
    }
    answer.places |= {address: _named(symbols, address, lines.get(address)) for address in wanted}
    cache.save(request.key, answer)
    _report(answer)


def _debug_binary(binary: Binary, build_id: str) -> Binary | None:
    with suppress(Exception):
        found = binary.debug_file(build_id)
        return None if found is None else Binary(found)
    return None


def _best(own: Symbols, separate: Symbols | None) -> Symbols:
    return own if own.is_whole or separate is None or not len(separate) else separate


def _lines(
    binary: Binary, debug: Binary | None, wanted: list[int], symbols: Symbols
) -> dict[int, tuple[str, int]]:
    for candidate in (binary, debug):
        if candidate is None:
            continue
        # Without source lines functions still have names.
        with suppress(Exception):
            lines = DebugLines(candidate)
            if lines.is_there:
                return lines.places(wanted, symbols.entries)
    return {}


def _named(symbols: Symbols, address: int, line: tuple[str, int] | None = None) -> SourceLocation:
    symbol = symbols.at(address)
    if symbol is None:
        return SourceLocation("", "", 0)
    if line is None:
        return SourceLocation(demangled(symbol.name), symbol.file, 0)
    # Its line distinguishes a contained procedure from others of its name.
    nested = _NESTED.fullmatch(symbol.name)
    return SourceLocation(nested["name"] if nested else demangled(symbol.name), *line)


def _report(answer: BinarySymbols) -> None:
    data = msgspec.msgpack.encode(answer)
    os.ftruncate(1, 0)
    os.pwrite(1, hashlib.sha256(data).digest() + data, 0)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))


def main() -> None:
    """Answer one request."""
    _limit()
    request = msgspec.msgpack.decode(Path("/dev/stdin").read_bytes(), type=Request)
    try:
        look_up(request)
    except OSError as error:
        _report(BinarySymbols(problem=f"it cannot be read ({error.strerror}); let this user read it"))
    except Exception as error:
        reason = str(error).splitlines()[:1] or [type(error).__name__]
        answer = BinarySymbols(problem=f"it is not a program, or is damaged ({reason[0]}); build it anew")
        SymbolCache().save(request.key, answer)
        _report(answer)


if __name__ == "__main__":
    main()
