"""Names that processes of one user hold on a node, each one process at a time.

A name is a byte of a file that no other user can open, and its holder has locked this byte: the lock ends
with the process, however that ends, nothing is left of it, and nobody else can take or even see it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import stat
import struct
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

from chimbuko.core.errors import ServiceError

PLACES = Path("/tmp"), Path("/dev/shm")
"""Folders of which the first that can be written has the files. $TMPDIR is the last resort: all of a user's
processes have to look into the same files, whatever job they are of.
"""

_LOCK = struct.Struct("hhqqi4x")
"""Layout of ``struct flock``: kind, whence, first byte, number of bytes, process."""
_OFFSETS = 1 << 62


def place() -> Path:
    """Return the folder of the files; in a container whose root is read-only that is not ``/tmp``."""
    found = (path for path in PLACES if os.access(path, os.W_OK | os.X_OK))
    return next(found, None) or Path(tempfile.gettempdir())


class Held:
    """A name that this process holds, and each process that has one of its ``descriptors``."""

    def __init__(self, opened: ExitStack, descriptors: list[int]) -> None:
        self.descriptors = descriptors
        self._opened = opened

    def close(self) -> None:
        """Release the name."""
        self._opened.close()

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def hold(name: str) -> Held:
    """Hold a name on this node until this process ends, however it ends, or closes what is returned.

    Raises
    ------
    ServiceError
        Another process holds the name, or no name can be held.
    """
    with ExitStack() as opened:
        try:
            files = _files(opened)
            if not files:
                _make_file()
                # Of two processes that are first at the same time one sees both files, and locks both.
                files = _files(opened)
            for file in files:
                # Cleaners that go by age leave files that are young, or locked as a whole.
                os.utime(file)
                fcntl.flock(file, fcntl.LOCK_SH)
                fcntl.fcntl(file, fcntl.F_OFD_SETLK, _lock(name))
        except BlockingIOError:
            raise ServiceError(f"{name}: another process is at work there already") from None
        except OSError as error:
            raise ServiceError(
                f"{name}: cannot be reserved for one process ({error}); make room in {place()}"
            ) from error
        return Held(opened.pop_all(), files)


class HeldFolder:
    """A new folder that nobody else can look into, as a context that removes it at its end.

    Its path is held as a name: where the process is killed, another one sees that, and removes the folder.

    Parameters
    ----------
    prefix
        Beginning of the folder's name.
    place
        Folder that it is made in; None for that of temporary files.

    Raises
    ------
    ServiceError
        No name can be held.
    """

    def __init__(self, prefix: str, place: Path | None = None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        try:
            self._held = hold(str(self.path))
        except ServiceError:
            self.path.rmdir()
            raise

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._held.close()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def is_held(name: str) -> bool:
    """Return whether a process of this user holds a name. Asking does not get in the way of a process that is
    about to hold it.
    """
    with ExitStack() as opened:
        answers = [fcntl.fcntl(file, fcntl.F_OFD_GETLK, _lock(name)) for file in _files(opened)]
    return any(_LOCK.unpack(answer)[0] != fcntl.F_UNLCK for answer in answers)


def _files(opened: ExitStack) -> list[int]:
    """Return this user's files, open until ``opened`` is closed: one, as a rule."""
    found, names, folder = [], list[str](), place()
    # Not ``glob``, which takes 1.2 ms among 700 files, ten times as long.
    with suppress(OSError):
        names = sorted(name for name in os.listdir(folder) if name.startswith(_prefix()))
    for path in [folder / name for name in names]:
        with suppress(OSError):
            # Others may have put things there under such names, more than this process can open.
            if not _is_ours(path.lstat()):
                continue
            file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            opened.callback(os.close, file)
            if _is_ours(os.fstat(file)):
                found.append(file)
    return found


def _is_ours(state: os.stat_result) -> bool:
    return stat.S_ISREG(state.st_mode) and state.st_uid == os.getuid() and not state.st_mode & 0o077


def _make_file() -> None:
    # A name that can be foreseen is one that others can take.
    path = place() / f"{_prefix()}{secrets.token_hex(8)}"
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _prefix() -> str:
    return f"chimbuko-names-{os.getuid()}-"


def _lock(name: str) -> bytes:
    offset = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) % _OFFSETS
    return _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, offset, 1, 0)
