"""The shield's C library: built at first use by the system's compiler, and kept for this user."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from chimbuko.errors import ConfigError
from chimbuko.shield.builds import CHECKED_BUILDS

SOURCE = Path(__file__).with_name("shield.c")
COMPILERS = ("cc", "gcc", "clang")
FLAGS = (
    *("-std=gnu11", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-fvisibility=hidden"),
    # A function that an older C library lacks then matters only where it is called, which is beside ADIOS2.
    *("-Wl,-z,lazy", "-Wl,--as-needed"),
)
BUILD_TIMEOUT_S = 60.0


def shield_library(
    environment: Mapping[str, str] = os.environ, builds: Collection[str] = CHECKED_BUILDS
) -> Path:
    """Path of the built library; it is built where it is not there yet, which takes some 0.2 s.

    Parameters
    ----------
    environment
        Where ``CC``, ``PATH``, ``XDG_CACHE_HOME``, ``HOME`` and ``TMPDIR`` are looked up.
    builds
        Pairs of build ids of ADIOS2 with which it acts, see :data:`CHECKED_BUILDS`.

    Raises
    ------
    ConfigError
        No compiler, none that works, or no folder of this user's own to keep the library in.
    """
    compiler = find_compiler(environment)
    table = "".join(f'"{build}",' for build in sorted(builds))
    source = SOURCE.read_bytes()
    # A home that nodes share serves machines with other processors and C libraries too.
    built_from = [" ".join(compiler), *FLAGS, table, platform.machine(), *platform.libc_ver()]
    key = hashlib.sha256(source + "\0".join(built_from).encode()).hexdigest()[:20]
    reason = "no folder for it"
    for folder in _folders(environment):
        library = folder / f"shield-{key}.so"
        try:
            _make_private(folder)
            if not library.exists():
                _build(compiler, table, library, environment)
            return library
        except OSError as error:
            reason = f"{folder}: {error.strerror or error}"
    raise ConfigError(f"the shield cannot be kept ({reason}); set XDG_CACHE_HOME to a folder of your own")


def find_compiler(environment: Mapping[str, str]) -> list[str]:
    """Words of the command of the C compiler: ``CC``, else the first that there is.

    Raises
    ------
    ConfigError
        There is none.
    """
    named = environment.get("CC", "").strip()
    for command in [named] if named else COMPILERS:
        words = shlex.split(command)
        found = shutil.which(words[0], path=environment.get("PATH", os.defpath))
        if found:
            return [found, *words[1:]]
    looked_for = f"CC={named}" if named else ", ".join(COMPILERS)
    raise ConfigError(f"no C compiler for the shield ({looked_for} not found); install one, or set CC")


def _folders(environment: Mapping[str, str]) -> Iterator[Path]:
    """Where libraries may be kept. The dynamic linker takes blanks and colons for the end of a path."""
    cache = environment.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):
        cache = str(Path(environment.get("HOME") or Path.home(), ".cache"))
    temporary = environment.get("TMPDIR") or tempfile.gettempdir()
    for folder in (Path(cache, "chimbuko"), Path(temporary, f"chimbuko-{os.getuid()}")):
        if folder.is_absolute() and not any(letter.isspace() or letter == ":" for letter in str(folder)):
            yield folder


def _make_private(folder: Path) -> None:
    """Make it, or check it: nobody else may put there what applications are to load."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(0, "not a folder that only this user can write")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(0, "cannot be written")


def _build(compiler: list[str], table: str, library: Path, environment: Mapping[str, str]) -> None:
    """Compile beside it and rename: processes that do so at the same time do not see half a file."""
    with tempfile.TemporaryDirectory(dir=library.parent, prefix=".building-") as folder:
        built = Path(folder) / library.name
        words = [*compiler, *FLAGS, f"-DCHECKED_BUILDS={table}", "-o", str(built), str(SOURCE), "-ldl"]
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, env=dict(environment)
            )
        except subprocess.TimeoutExpired as error:
            raise ConfigError(f"{compiler[0]} did not build the shield in {BUILD_TIMEOUT_S:.0f} s") from error
        if done.returncode:
            said = next((line for line in done.stderr.splitlines() if "error" in line), "").strip()
            raise ConfigError(f"{compiler[0]} cannot build the shield ({said or done.returncode}); set CC")
        _try(built)
        built.replace(library)


def _try(library: Path) -> None:
    """Where a folder forbids programs, the dynamic linker says so to every process, and goes on."""
    program = shutil.which("true", path=os.defpath)
    if program is None:
        return
    done = subprocess.run([program], env={"LD_PRELOAD": str(library)}, capture_output=True, text=True)
    if done.returncode or done.stderr:
        raise OSError(done.stderr.strip() or f"a program that loads it ends with {done.returncode}")
