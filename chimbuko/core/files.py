"""Files that a reader finds whole, the old text or the new one, never half of it, files of somebody else,
private folders, and files without a name.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

from chimbuko.core.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


MOST_BYTES = 1 << 30
"""Largest size of a file that is read as a whole, in bytes."""


def open_regular(path: Path) -> BinaryIO:
    """Return a file that may be somebody else's, open for reading.

    Raises
    ------
    OSError
        There is none, or something else: a pipe would keep its reader for ever, and a device has no end.
    """
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "Not a file")
    return open(file, "rb")


def contents(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """Return what is in a file that may be somebody else's.

    Raises
    ------
    OSError
        There is none, or something else, or it is larger than ``most_bytes``.
    """
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > most_bytes:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        # A size would be allocated, whatever the file has: too much where address space is limited.
        return file.read()


def is_own_folder(folder: Path) -> bool:
    """Return whether it is a folder, and no link to one, that is this user's and that no other user can
    enter.
    """
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def make_own_folder(folder: Path) -> None:
    """Make the folder, or check the one that is there.

    Raises
    ------
    ConfigError
        The folder cannot be made, or is not ours alone.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{folder}: cannot be made ({error.strerror}); set TMPDIR to a folder on local storage"
        ) from error
    if not is_own_folder(folder):
        raise ConfigError(f"{folder}: others than you can write there; remove it, or set TMPDIR")


def write_atomically(path: Path | str, data: bytes, mode: int = 0o666, *, is_durable: bool = False) -> None:
    """Write a file in place of an existing one.

    Parameters
    ----------
    mode
        Permissions of the file, less the umask.
    is_durable
        Whether the file is on the disk, and under its name, when this returns: even a machine that loses its
        power then has the old text or the new one. Otherwise it could have an empty file.

    Raises
    ------
    OSError
        The file cannot be written; the existing one stays, and nothing else is left.
    """
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}-{os.getpid()}")
    with suppress(FileNotFoundError):
        # Left by a process of the same number that died just here.
        os.unlink(temporary)
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
        replace(temporary, path, is_durable=is_durable)
    except OSError:
        # Half a file would take room from others.
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def replace(new: Path | str, path: Path | str, *, is_durable: bool) -> None:
    """Rename a file to ``path``; with ``is_durable`` it is whole under that name after a loss of power,
    too.
    """
    if is_durable:
        _sync(new, os.O_RDONLY)
    os.replace(new, path)
    if is_durable:
        # Some file systems sync files only.
        with suppress(OSError):
            _sync(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path | str, flags: int) -> None:
    opened = os.open(path, flags)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


MEMORY = "/dev/shm"


def unnamed_file(name: str) -> int:
    """Return the descriptor of an empty file in memory that is gone when nobody has it open any more.

    Filters of system calls may refuse that (seccomp, of containers): it is a file without a name then, in
    ``/dev/shm``, or where temporary files are.
    """
    try:
        return os.memfd_create(name)
    except OSError:
        # Here because hardly anybody needs it: it takes 3 ms.
        from tempfile import TemporaryFile

        folder = MEMORY if os.access(MEMORY, os.W_OK) else None
        with TemporaryFile(dir=folder) as file:
            return os.dup(file.fileno())
