"""Library of all kernels: an extension module that numba has compiled ahead of time.

It needs no numba where it is used: loading numba and its cache took each process 0.7 s and 110 MB. A wheel
carries it; elsewhere ``chimbuko warmup`` builds it, once for a version of the sources. Its name is a
fingerprint of all that is compiled into it, so a library of other sources is not found.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import os
import platform
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, flock
from functools import cache
from pathlib import Path
from types import ModuleType

import chimbuko
from chimbuko.core.errors import ServiceError
from chimbuko.core.files import is_own_folder

FOLDER_VARIABLE = "CHIMBUKO_KERNELS"
"""Environment variable for the folder of a library of one's own."""
FORM_VARIABLE = "CHIMBUKO_KERNELS_AS"
"""Environment variable for another form of the kernels: ``jit`` for numba's, compiled in this process,
``source`` for what the library is compiled from, ``checked`` for the library with a look at the types of
all arguments, ``recorded`` for plain Python that notes these types.
"""
_PACKAGE = Path(chimbuko.__file__).parent
INSTALLED = _PACKAGE / "core" / "kernels" / "compiled"
"""Folder of the library that belongs to the installation."""
NEW_CPU_FLAGS = {"avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}
"""Flags of the CPUs of the level x86-64-v3, which all of HPC have had since 2013."""


_loaded: dict[str, ModuleType] = {}


def load() -> ModuleType | None:
    """Load the library; return None where there is none for these sources and this kind of CPU, or none that
    this system can load.
    """
    name = library_name()
    if name not in _loaded:
        for path in _found(file_name()):
            # It may be cut short, or be linked with a C library that is newer than this system's.
            with suppress(ImportError):
                _loaded[name] = _module(name, path)
                break
    return _loaded.get(name)


def _module(name: str, path: Path) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def find() -> Path | None:
    """Return the path of the library that is loaded; None if there is none."""
    module = load()
    return None if module is None else Path(str(module.__file__))


def is_of_numba() -> bool:
    """Return whether numba has compiled all kernels into its cache, because no library can be built."""
    return load() is None and next(_found(without_library()), None) is not None


def is_prepared() -> bool:
    """Return whether no process has to compile a kernel: the library is there, or numba has compiled all."""
    return load() is not None or is_of_numba()


def without_library() -> str:
    """Return the name of the file that says that a library cannot be built, and that numba has compiled all
    kernels into its own cache beside it.
    """
    return f"{library_name()}.numba"


def place() -> Path:
    """Return the folder into which this user can build the library, the installation's own if possible.

    Raises
    ------
    ServiceError
        No folder can be written.
    """
    for folder in _folders():
        if _is_writable(folder):
            return folder
    raise ServiceError(f"no folder can be written for compiled kernels; set {FOLDER_VARIABLE} to one")


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Wait until no other process of this user builds a library there, and keep others from it.

    Where the file system knows no locks, several build it at the same time: that is slower, and no harm.
    """
    file = -1
    try:
        file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        flock(file, LOCK_EX)
    except OSError:
        pass
    try:
        yield
    finally:
        if file >= 0:
            os.close(file)


@cache
def library_name() -> str:
    """Return the name of the library of these sources, for this Python and this kind of CPU."""
    known = hashlib.sha256(f"{sys.implementation.cache_tag} {cpu_level()}".encode())
    for folder in ("core", "core/calls", "*/kernels", "*/*/kernels"):
        for source in sorted(_PACKAGE.glob(f"{folder}/*.py")):
            known.update(source.read_bytes())
    known.update((_PACKAGE / "core" / "kernels" / "signatures.json").read_bytes())
    return f"kernels_{known.hexdigest()[:16]}"


def file_name() -> str:
    """Return the file name of the library."""
    return library_name() + suffix()


def suffix() -> str:
    """Return the suffix of the library's file name, which tells the version of Python and the machine."""
    return str(sysconfig.get_config_var("EXT_SUFFIX"))


@cache
def cpu_level() -> str:
    """Return the kind of CPU for which the library is compiled; empty for the oldest of its architecture."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return ""
    try:
        with open("/proc/cpuinfo") as file:
            flags = next((line for line in file if line.startswith("flags")), "").split()
    except OSError:
        return ""
    return "x86-64-v3" if set(flags) >= NEW_CPU_FLAGS else ""


def _folders() -> Iterator[Path]:
    """Yield the folders that may have a library, in the order in which they are looked at."""
    if given := os.environ.get(FOLDER_VARIABLE):
        yield Path(given)
        return
    yield INSTALLED
    yield Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "chimbuko"
    # A library is loaded as code: nobody else may write where it is.
    if is_own_folder(_temporary()) or not os.path.lexists(_temporary()):
        yield _temporary()


def _temporary() -> Path:
    return Path(tempfile.gettempdir()) / f"chimbuko-kernels-{os.getuid()}"


def _found(name: str) -> Iterator[Path]:
    return (folder / name for folder in _folders() if (folder / name).exists())


def _is_writable(folder: Path) -> bool:
    try:
        # All users read what is installed.
        folder.mkdir(mode=0o700 if folder == _temporary() else 0o777, parents=True, exist_ok=True)
        # On a read-only file system, or beyond a quota, permissions do not tell.
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True
