"""Archive of this installation with its interpreter: a node unpacks one file, and imports nothing shared.

It runs wherever it is unpacked, on systems with the libraries that this one has in its system folders.
"""

from __future__ import annotations

import compileall
import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import chimbuko
from chimbuko.core.errors import ConfigError

MOST_BYTES = 200_000_000
"""Largest archive that is made, in bytes: each node keeps its copy in memory where /tmp is there."""
EXTRAS = ("postgresql", "nvidia")
"""Extras that a run on nodes may need; what is not installed of them is left out."""
_COMPRESSION = 6
"""Level of gzip; 9 takes three times as long for 1 % less."""
_NOT_NEEDED = shutil.ignore_patterns(
    *("test", "tests", "__pycache__", "*.pyi", "*.pxd", "*.a", "*.h", "*.lib", "lock"),
    *("idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "pydoc_data", "site-packages"),
    *("dist-packages", "config-*", "node_modules", "web", "numba-cache"),
)
_NOT_NEEDED_OF_OURS = shutil.ignore_patterns("__pycache__", "node_modules", "web", "lock")
"""Our own C sources stay: the recorder is compiled for the MPI of each cluster."""
_SYSTEM = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")
_COMMAND = """\
#!/bin/sh
# Runs chimbuko by the interpreter beside this file, wherever both lie.
here=$(dirname "$(readlink -f "$0")")/..
unset PYTHONHOME
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export PYTHONPATH="$here/lib/PACKAGES${PYTHONPATH:+:$PYTHONPATH}"
exec "$here/bin/python" -m chimbuko "$@"
"""


def write_archive(path: Path) -> int:
    """Write the archive, a tar with gzip; returns its size in bytes.

    Raises
    ------
    ConfigError
        It cannot be written, or is too large.
    """
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with tempfile.TemporaryDirectory(prefix="chimbuko-archive-") as scratch:
            root = Path(scratch)
            _copy(root)
            with tarfile.open(new, "w:gz", compresslevel=_COMPRESSION) as archive:
                archive.add(root, ".", filter=_without_owner)
        size = new.stat().st_size
        if size > MOST_BYTES:
            raise ConfigError(f"{path}: {size / 1e6:.0f} MB are too large an archive for each node")
        new.replace(path)
    except OSError as error:
        raise ConfigError(f"{path}: the archive cannot be written ({error.strerror or error})") from error
    finally:
        new.unlink(missing_ok=True)
    return size


def _copy(root: Path) -> None:
    """Lay out interpreter, standard library, packages and command, all of it compiled."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    library, commands = root / "lib" / version, root / "bin"
    packages = library / "site-packages"
    commands.mkdir(parents=True)
    interpreter = Path(sys.base_prefix) / "bin" / version
    shutil.copy2(interpreter if interpreter.exists() else Path(sys.executable).resolve(), commands / version)
    (commands / "python").symlink_to(version)
    standard = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    for folder in standard:
        shutil.copytree(folder, library, ignore=_NOT_NEEDED, dirs_exist_ok=True)
    packages.mkdir()
    for distribution in _distributions():
        _copy_distribution(distribution, packages)
    # What is here, with its kernels, whether it was installed or is edited.
    ours, target = Path(chimbuko.__file__).parent, packages / "chimbuko"
    shutil.copytree(ours, target, ignore=_NOT_NEEDED_OF_OURS, dirs_exist_ok=True)
    for needed in _libraries([commands / version, *(library / "lib-dynload").glob("*.so")]):
        shutil.copy2(needed, root / "lib" / needed.name)
    _link_alike(library)
    compileall.compile_dir(library, quiet=2, workers=len(os.sched_getaffinity(0)))
    command = commands / "chimbuko"
    command.write_text(_COMMAND.replace("PACKAGES", f"{version}/site-packages"))
    command.chmod(0o755)


def _copy_distribution(distribution: importlib.metadata.Distribution, packages: Path) -> None:
    """Copy a package as it was installed, but for its commands, tests and what only compilers read."""
    for file in distribution.files or ():
        source = Path(str(distribution.locate_file(file)))
        if ".." in file.parts or not source.is_file() or source.suffix == ".pth":
            continue
        folder = ""
        for part in file.parts:
            if part in _NOT_NEEDED(folder, [part]) and not part.endswith(".libs"):
                break
            folder = f"{folder}/{part}"
        else:
            target = packages / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def _distributions() -> list[importlib.metadata.Distribution]:
    """Return Chimbuko and all that it needs, each once."""
    found: dict[str, importlib.metadata.Distribution] = {}

    def add(name: str) -> None:
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in found:
            return
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            return
        found[key] = distribution
        for requirement in (_edited() if key == "chimbuko" else []) or distribution.requires or ():
            extra = re.search(r"extra\s*==\s*['\"]([\w.-]+)", requirement)
            if extra is None or (key == "chimbuko" and extra[1] in EXTRAS):
                add(re.split(r"[^\w.-]", requirement, maxsplit=1)[0])

    add("chimbuko")
    return list(found.values())


def _edited() -> list[str]:
    """Return what a checkout asks for, which may be more than when it was installed; nothing elsewhere."""
    described = Path(chimbuko.__file__).parents[1] / "pyproject.toml"
    if not described.is_file():
        return []
    project = tomllib.loads(described.read_text())["project"]
    extras = project["optional-dependencies"]
    return [*project["dependencies"], *(one for extra in EXTRAS for one in extras[extra])]


def _link_alike(folder: Path) -> None:
    """Make large files with the same content one: wheels hold libraries once under each of their names."""
    seen: dict[bytes, Path] = {}
    for path in sorted(folder.rglob("*.so*")):
        if path.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
        if digest in seen:
            path.unlink()
            path.hardlink_to(seen[digest])
        seen.setdefault(digest, path)


def _libraries(binaries: list[Path]) -> Iterator[Path]:
    """Yield the shared libraries that these need and that are not in the system's folders, each once."""
    seen = set()
    for binary in binaries:
        done = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=False)
        for path in re.findall(r"=> (/\S+)", done.stdout):
            if path not in seen and not path.startswith(_SYSTEM):
                seen.add(path)
                yield Path(path)


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
