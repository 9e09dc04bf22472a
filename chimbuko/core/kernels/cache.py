"""Cache of compiled kernels, and whether all of them are there. Loads no numba, which takes 0.4 s.

An installation that its users cannot write may hold kernels that were compiled by its administrator: a user's
own cache then links to those. So numba finds them where it looks, and what is missing there, as for another
kind of CPU, is compiled beside them.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, flock
from pathlib import Path

import msgspec

import chimbuko
from chimbuko.core.errors import ServiceError
from chimbuko.core.files import is_own_folder, write_atomically

CACHE_VARIABLE = "NUMBA_CACHE_DIR"
"""Numba's own environment variable for the folder of compiled code."""
_PACKAGE = Path(chimbuko.__file__).parent
INSTALLED = _PACKAGE / "core" / "kernels" / "__pycache__"
"""Cache of the installation itself; numba keeps kernels beside the sources of each."""
_CODE = ".nbc"
"""Suffix of files with compiled code."""
_NOT_IN_CODE = (CACHE_VARIABLE, "NUMBA_NUM_THREADS")
_OF_CPU = ("model name", "flags", "Features", "CPU part")


def use_cache() -> Path:
    """Return the folder in which numba keeps kernels of this package, or one that stands for it.

    It is ``NUMBA_CACHE_DIR``, the folder of the sources, or the user's cache, whichever can be written first.
    Where none can, ``NUMBA_CACHE_DIR`` is set, for this process and its children, to a temporary folder of
    the user's: without any, numba refuses to work. Kernels that were compiled with an installation that
    cannot be written are linked into it.

    Raises
    ------
    ServiceError
        There is no temporary folder either.
    """
    try:
        cache = _writable_cache()
    except OSError as error:
        raise ServiceError(
            f"no folder can be written for compiled kernels ({error}); set {CACHE_VARIABLE}"
        ) from None
    if cache != INSTALLED and not are_compiled(cache) and not os.access(INSTALLED, os.W_OK):
        # Without links the kernels are compiled, which is slow, and no harm.
        with suppress(OSError, msgspec.DecodeError):
            _link_installed(cache)
    return cache


def _writable_cache() -> Path:
    given = os.environ.get(CACHE_VARIABLE)
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    for folder in [Path(given)] if given else [INSTALLED, caches / "numba"]:
        if _is_writable(folder):
            return folder
    folder = Path(tempfile.gettempdir()) / f"chimbuko-kernels-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    # Compiled kernels are loaded as code: nobody else may write there.
    if not is_own_folder(folder):
        folder = Path(tempfile.mkdtemp(prefix="chimbuko-kernels-"))
    os.environ[CACHE_VARIABLE] = str(folder)
    return folder


def _link_installed(cache: Path) -> None:
    """Link the kernels that the installation has compiled for this CPU into a user's cache.

    They are links, so that kernels of a newer installation follow, and nothing is stored twice. Numba
    replaces them by files of the user's where it compiles something, and leaves their targets alone.
    """
    noted = _noted_in(INSTALLED)
    linked = []
    for folder, files in noted.items():
        kernels = {name.rpartition(".py")[0] for name in files}
        paths = [path for path in Path(folder).iterdir() if path.name.rpartition(".py")[0] in kernels]
        if not files.items() <= _compiled_in(folder).items() or not all(map(_is_readable, paths)):
            return
        # Numba names it so, by the folder of the sources.
        sources = os.path.dirname(folder)
        name = f"{os.path.basename(sources)}_{hashlib.sha1(sources.encode()).hexdigest()}"
        place = cache / name
        place.mkdir(exist_ok=True)
        for path in paths:
            _link(place / path.name, path)
        linked.append(str(place))
    note_compiled(cache, linked)


def are_compiled(cache: Path) -> bool:
    """Return whether all kernels are there, for this CPU and the current sources."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return True
    try:
        noted = _noted_in(cache)
    except (OSError, msgspec.DecodeError):
        return False
    return bool(noted) and all(
        files.items() <= _compiled_in(folder).items() for folder, files in noted.items()
    )


def note_compiled(cache: Path, folders: Iterable[str]) -> None:
    """Note that all kernels are compiled, and which files in these folders they are.

    Raises
    ------
    OSError
        The note cannot be written: the next run looks again.
    """
    # An installation may be copied with what is compiled in it.
    compiled = {os.path.relpath(folder, cache): _compiled_in(folder) for folder in sorted(folders)}
    write_atomically(_note_of(cache), msgspec.json.encode(compiled))


@contextmanager
def only_one(cache: Path) -> Iterator[None]:
    """Wait until no other process of this user compiles, and keep others from it.

    Where the file system knows no locks, several compile at the same time: that is slower, and no harm.
    """
    file = -1
    try:
        file = os.open(cache / "chimbuko-kernels.lock", os.O_RDWR | os.O_CREAT, 0o600)
        flock(file, LOCK_EX)
    except OSError:
        pass
    try:
        yield
    finally:
        if file >= 0:
            os.close(file)


def _noted_in(cache: Path) -> dict[str, dict[str, int]]:
    """Return, by folder, the files with kernels for this CPU, and the size of each."""
    noted = msgspec.json.decode(_note_of(cache).read_bytes(), type=dict[str, dict[str, int]])
    return {os.path.normpath(cache / folder): files for folder, files in noted.items()}


def _note_of(cache: Path) -> Path:
    return cache / f"chimbuko-kernels-{_fingerprint()}.json"


def _fingerprint() -> str:
    """Return a fingerprint of all that compiled code depends on: sources, compiler, its settings, and the
    CPU.
    """
    known = hashlib.sha256(sys.version.encode())
    for package in ("numba", "llvmlite"):
        known.update(importlib.metadata.version(package).encode())
    for name, value in sorted(os.environ.items()):
        if name.startswith("NUMBA_") and name not in _NOT_IN_CODE:
            known.update(f"{name}={value}".encode())
    known.update(_cpu().encode())
    folders = ("*/kernels", "*/*/kernels")
    for source in sorted(path for folder in folders for path in _PACKAGE.glob(f"{folder}/*.py")):
        known.update(source.read_bytes())
    return known.hexdigest()[:16]


def _cpu() -> str:
    """Return what distinguishes the first CPU of this machine from other kinds."""
    try:
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:
        return ""
    return "\n".join(line for line in first.splitlines() if line.startswith(_OF_CPU))


def _compiled_in(folder: str) -> dict[str, int]:
    """Return the size of each file of compiled code: its name identifies the kernel, its size the version."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry.stat().st_size for entry in entries if entry.name.endswith(_CODE)}
    except OSError:
        return {}


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # It is tried as numba does it: on a read-only file system, or beyond a quota, permissions do not
        # tell.
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _is_readable(path: Path) -> bool:
    return os.access(path, os.R_OK)


def _link(path: Path, target: Path) -> None:
    """Replace a path by a symbolic link; whoever reads meanwhile finds the one or the other."""
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(path)
