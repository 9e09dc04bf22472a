"""C libraries that applications preload: built at first use by the system's compiler, kept for this user."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from chimbuko.core.errors import ConfigError

PRELOAD_VARIABLE = "LD_PRELOAD"
BUILDING = ".building-"
"""Begin of the names of folders in which libraries are built, and tried."""
COMPILERS = ("cc", "gcc", "clang")
BUILD_TIMEOUT_S = 60.0


def find_compiler(environment: Mapping[str, str], what: str) -> list[str]:
    """Return the command of the C compiler, as words: ``CC``, else the first that there is.

    Parameters
    ----------
    environment
        Environment where ``CC`` and ``PATH`` are looked up.
    what
        Name of what is to be built, for messages, as "the shield".

    Raises
    ------
    ConfigError
        There is no compiler.
    """
    named = environment.get("CC", "").strip()
    for command in [named] if named else COMPILERS:
        words = shlex.split(command)
        found = shutil.which(words[0], path=environment.get("PATH", os.defpath))
        if found:
            return [found, *words[1:]]
    looked_for = f"CC={named}" if named else ", ".join(COMPILERS)
    raise ConfigError(f"no C compiler for {what} ({looked_for} not found); install one, or set CC")


def key_of(*built_from: bytes | str) -> str:
    """Return a key that distinguishes a library from one that was built from other sources, or for another
    machine.
    """
    # A home that nodes share serves machines with other processors and C libraries too.
    parts = [*built_from, platform.machine(), *platform.libc_ver()]
    encoded = (part if isinstance(part, bytes) else part.encode(errors="surrogateescape") for part in parts)
    return hashlib.sha256(b"\0".join(encoded)).hexdigest()[:20]


def kept_library(name: str, build: Callable[[Path], None], environment: Mapping[str, str], what: str) -> Path:
    """Return the path of a library; it is built where it is not there yet, by one process at a time.

    Parameters
    ----------
    name
        Name of the file.
    build
        Callback that writes the library to the path that it is given.
    environment
        Environment where ``XDG_CACHE_HOME``, ``HOME`` and ``TMPDIR`` are looked up.
    what
        Name of the library, for messages.

    Raises
    ------
    ConfigError
        The library cannot be built, or there is no folder of this user's own to keep it in.
    """
    reason = "no folder for it"
    for folder in _folders(environment):
        library = folder / name
        try:
            _make_private(folder)
            if not library.exists():
                _build(library, build)
            return library
        except OSError as error:
            reason = f"{folder}: {error.strerror or error}"
    raise ConfigError(f"{what} cannot be kept ({reason}); set XDG_CACHE_HOME to a folder of your own")


def compile_with(words: Iterable[str], environment: Mapping[str, str], what: str, remedy: str) -> str:
    """Run a compiler; return its standard output.

    Raises
    ------
    ConfigError
        The compiler fails, or takes too long.
    """
    words = list(words)
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=BUILD_TIMEOUT_S,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"{words[0]} did not build {what} in {BUILD_TIMEOUT_S:.0f} s; {remedy}") from error
    if done.returncode:
        said = next((line for line in done.stderr.splitlines() if "error" in line), "").strip()
        raise ConfigError(f"{words[0]} cannot build {what} ({said or done.returncode}); {remedy}")
    return done.stdout


def _folders(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield folders where libraries may be kept. The dynamic linker takes blanks and colons for the end of a
    path.
    """
    cache = environment.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):
        cache = str(Path(environment.get("HOME") or Path.home(), ".cache"))
    temporary = environment.get("TMPDIR") or tempfile.gettempdir()
    for folder in (Path(cache, "chimbuko"), Path(temporary, f"chimbuko-{os.getuid()}")):
        if folder.is_absolute() and not any(letter.isspace() or letter == ":" for letter in str(folder)):
            yield folder


def _make_private(folder: Path) -> None:
    """Make a private folder, or check it: nobody else may put there what applications are to load."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(0, "not a folder that only this user can write")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(0, "cannot be written")


def _build(library: Path, build: Callable[[Path], None]) -> None:
    """Build a library beside its path and rename it: processes that do so at the same time do not see half a
    file.
    """
    with _alone(library.parent):
        if library.exists():
            return
        with tempfile.TemporaryDirectory(dir=library.parent, prefix=BUILDING) as folder:
            built = Path(folder) / library.name
            build(built)
            _try(built)
            built.replace(library)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, as all ranks of a node come at the same moment; a file system without locks
    lets them all build.
    """
    held = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _try(library: Path) -> None:
    """Try to load a library: where a folder forbids programs, the dynamic linker would tell every process so,
    and go on.
    """
    program = shutil.which("true", path=os.defpath)
    if program is None:
        return
    done = subprocess.run([program], env={PRELOAD_VARIABLE: str(library)}, capture_output=True, text=True)
    if done.returncode or done.stderr:
        raise OSError(done.stderr.strip() or f"a program that loads it ends with {done.returncode}")
