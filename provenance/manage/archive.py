"""Archives of runs: compressed tar files with a checksum of each part, unpacked elsewhere.

The first part is a manifest, so that what is wrong with the others is known before they are used. The
provenance is SQLite in any case, and no URL of a database leaves the machine.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import re
import shutil
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Annotated, Final

import msgspec
from msgspec import Meta
from sqlalchemy import Engine

from chimbuko import __version__
from chimbuko.core.errors import ConfigError, StoreError
from chimbuko.core.files import replace
from chimbuko.provenance.manage.transfer import AlreadyStored, copy_run
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.store.engine import close, open_for_reading, open_for_writing
from chimbuko.provenance.store.urls import public_url
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.process.nameholding import hold
from chimbuko.runtime.runs.directory import RunDirectory, RunInfo, check_name
from chimbuko.runtime.runs.finding import infos_of, runs_in

FORMAT = 1
MANIFEST = "chimbuko-archive.json"
COMPRESSION_LEVEL: Final = 1
"""Level of xz: a store of 1.1 MB takes 143 kB in 0.05 s. With gzip it takes 175 kB in 0.02 s, with xz's usual
level 131 kB in 0.3 s."""
MANIFEST_LIMIT_BYTES = 64 << 20
"""Largest manifest: ours take some 100 bytes for each file."""
HEADERS_LIMIT_BYTES = 1 << 20
"""Most bytes of headers before a file in an archive."""
COPY_BYTES = 1 << 20
_NAMES = re.compile(
    r"run\.json|provenance\.sqlite|model\.msgpack|report\.json\.gz|observed\.msgpack|logs/[^/]+\.log"
)
"""Names of files that may be in an archive. A run's other files say where its processes are, or are run by a
shell."""


class PackedFile(msgspec.Struct, frozen=True):
    """File of an archive, with its size and checksum."""

    size_bytes: Annotated[int, Meta(ge=0)]
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """Contents of an archive."""

    format: int
    """Format of the archive, ``FORMAT``. The provenance has a version of its own, that of its schema."""
    run: str
    """Id of the run."""
    name: str
    """Name of the run."""
    version: str
    """Version of the Chimbuko that wrote the archive."""
    files: dict[str, PackedFile]
    """Files by path in the run's folder."""


class Archived(msgspec.Struct, frozen=True):
    """Archive that was written."""

    run: str
    name: str
    file: str
    files: int
    size_bytes: int


class Unpacked(msgspec.Struct, frozen=True):
    """Run that was unpacked."""

    run: str
    name: str
    folder: str
    store: str
    """URL of its store without the password."""
    was_stored: bool
    """Whether the database already held the run that was to be copied into it."""


def write_archive(run: RunDirectory, output: Path) -> Archived:
    """Write a run that has ended into one file, which appears whole or not at all.

    Raises
    ------
    ChimbukoError
        The run cannot be read, or the file not written; what was there before is there still.
    """
    info = run.read_info()
    with _working_folder(output) as folder:
        copy = RunDirectory(folder)
        _copy_store(run, info, copy)
        copy.write_info(_as_packed(info))
        paths = {path.name: path for path in (copy.info_path, copy.store_path)}
        beside = (run.model_path, run.report_path, run.observed_path)
        for path in (*beside, *sorted(run.logs.glob("*.log"))):
            if path.is_file() and not path.is_symlink():
                paths[str(path.relative_to(run.path))] = path
        files = {name: _part(path) for name, path in paths.items()}
        manifest = Manifest(FORMAT, info.id, info.name, __version__, files)
        packed = folder / "packed"
        with tarfile.open(packed, "w:xz", preset=COMPRESSION_LEVEL) as archive:
            _add_text(archive, MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
            for name, path in paths.items():
                archive.add(path, name, filter=_without_owner)
        size_bytes = packed.stat().st_size
        replace(packed, output.absolute(), is_durable=True)
    return Archived(info.id, info.name, str(output), len(files), size_bytes)


def _as_packed(info: RunInfo) -> RunInfo:
    """Return the description of a run as it is packed."""
    # A run that died has noted no end, and elsewhere nobody could find it out.
    state = "interrupted" if info.state == "running" else info.state
    return msgspec.structs.replace(
        info, state=state, store_url=f"sqlite:///{RunDirectory(Path()).store_path}"
    )


def is_archive(path: Path) -> bool:
    """Return whether a file is an archive of ours, of whatever version."""
    try:
        with _opened(path) as (_, archive):
            first = archive.next()
            return first is not None and first.name == MANIFEST
    except (OSError, EOFError, lzma.LZMAError, tarfile.TarError, ValueError):
        return False


def unpack_archive(path: Path, parent: Path, folder: Path | None, store_url: str | None) -> Unpacked:
    """Make a run's folder from an archive, whole or not at all.

    Parameters
    ----------
    parent
        Folder in which the run gets a folder of its name, unless ``folder`` is given.
    folder
        Folder of the run, which is empty or not there.
    store_url
        Store that its provenance is copied to; None leaves it in the folder.

    Raises
    ------
    ConfigError
        The archive is damaged, or of a newer Chimbuko, or its run or another is there already.
    StoreError
        The provenance cannot be read, or not copied.
    """
    with _reading(path), _opened(path) as (file, archive):
        manifest = _read_manifest(path, archive)
        target = RunDirectory((folder or parent / check_name(manifest.name)).absolute())
        _check_free(target.path, manifest)
        with _working_folder(target.path) as work:
            _check_room(work, manifest)
            _unpack(path, file, archive, manifest, work)
            unpacked = _settle(RunDirectory(work), target, manifest.run, store_url)
            # The rename takes the place of an empty folder, and of no other.
            work.rename(target.path)
    return unpacked


def _settle(work: RunDirectory, target: RunDirectory, run_id: str, store_url: str | None) -> Unpacked:
    """Bring what was unpacked up to date, and move it and its provenance where they belong."""
    info = work.read_info()
    engine = open_for_writing(work.store_url)
    try:
        Provenance(engine, run_id).run()
        was_stored = _copy_into(store_url, engine, run_id, target.path) if store_url else False
    finally:
        close(engine)
    if store_url:
        work.store_path.unlink()
        work.write_store_url(store_url)
    url = public_url(store_url or target.store_url)
    work.write_info(msgspec.structs.replace(info, id=run_id, store_url=url))
    return Unpacked(run_id, info.name, str(target.path), url, was_stored)


def _copy_into(store_url: str, source: Engine, run_id: str, folder: Path) -> bool:
    """Copy a run unless the store holds it already; return whether it did."""
    engine = open_for_writing(store_url)
    try:
        copy_run(source, run_id, engine)
        Writer(engine, run_id).write_folder(folder)
    except AlreadyStored:
        return True
    finally:
        close(engine)
    return False


class _Unpacked(io.RawIOBase):
    """Tar archive in a compressed file, unpacked as it is read.

    tarfile reads headers, and lists of the holes in a sparse file, as a whole, whatever length they state: a
    few kilobytes could fill the memory.
    """

    def __init__(self, path: Path) -> None:
        self._file = lzma.open(path)  # noqa: SIM115
        self._left = MANIFEST_LIMIT_BYTES

    def allow(self, size_bytes: int) -> None:
        """Let so many bytes be read from here on, and the headers behind them."""
        self._left = size_bytes + HEADERS_LIMIT_BYTES

    def read(self, size: int = -1, /) -> bytes:
        """Return at most so many bytes.

        Raises
        ------
        tarfile.ReadError
            That is more than may be read.
        """
        if not 0 <= size <= self._left:
            raise tarfile.ReadError("a header is too long")
        self._left -= size
        return self._file.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to this byte of the archive."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return how many bytes of the archive were read."""
        return self._file.tell()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


@contextmanager
def _opened(path: Path) -> Iterator[tuple[_Unpacked, tarfile.TarFile]]:
    with closing(_Unpacked(path)) as file, tarfile.open(fileobj=file, mode="r:") as archive:
        yield file, archive


def _check_room(folder: Path, manifest: Manifest) -> None:
    """Check that there is room before anything is unpacked; no part becomes larger than the manifest says."""
    needed, free = sum(part.size_bytes for part in manifest.files.values()), shutil.disk_usage(folder).free
    if needed > free:
        raise ConfigError(
            f"{manifest.name}: takes {needed / 1e6:,.0f} MB, and {folder.parent} has room for "
            f"{free / 1e6:,.0f}; choose another folder with --output"
        )


def _check_free(folder: Path, manifest: Manifest) -> None:
    for run, info in infos_of(runs_in(folder.parent)).items():
        if info.id == manifest.run:
            raise ConfigError(f"{manifest.name}: this run is here already, in {run.path}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder}: is there already; choose another folder with --output")


def _copy_store(run: RunDirectory, info: RunInfo, copy: RunDirectory) -> None:
    source = open_for_reading(run.used_store_url(info))
    try:
        if run.store_path.exists():
            _copy_database(source, copy.store_path)
        else:
            target = open_for_writing(copy.store_url)
            copy_run(source, info.id, target)
            close(target)
    finally:
        source.dispose()


def _copy_database(source: Engine, path: Path) -> None:
    """Copy an SQLite database as of one moment into one file that needs no log."""
    try:
        with closing(source.raw_connection()) as reading, closing(sqlite3.connect(path)) as writing:
            assert isinstance(reading.driver_connection, sqlite3.Connection)
            reading.driver_connection.backup(writing)
            writing.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.Error as error:
        raise StoreError(f"{public_url(source.url)}: cannot be copied to {path.parent} ({error})") from error


def _part(path: Path) -> PackedFile:
    with path.open("rb") as file:
        return PackedFile(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def _add_text(archive: tarfile.TarFile, name: str, text: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(text)
    archive.addfile(member, io.BytesIO(text))


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o600
    return member


def _read_manifest(path: Path, archive: tarfile.TarFile) -> Manifest:
    first = archive.next()
    file = archive.extractfile(first) if first is not None and first.name == MANIFEST else None
    if file is None:
        raise ConfigError(f"{path}: not an archive of a run; 'chimbuko runs archive' makes one")
    text = file.read(MANIFEST_LIMIT_BYTES)
    found = msgspec.json.decode(text, type=dict[str, msgspec.Raw]).get("format", msgspec.Raw(b"null"))
    if msgspec.json.decode(found) != FORMAT:
        raise ConfigError(
            f"{path}: an archive of format {bytes(found).decode()}, this Chimbuko reads {FORMAT}; "
            "use a newer Chimbuko"
        )
    return msgspec.json.decode(text, type=Manifest)


def _unpack(
    path: Path, unpacked: _Unpacked, archive: tarfile.TarFile, manifest: Manifest, folder: Path
) -> None:
    missing = dict(manifest.files)
    unpacked.allow(0)
    members = iter(archive)
    # This is the manifest, which has been read.
    next(members)
    for member in members:
        # The filter refuses places outside of the folder, links that lead there, and devices.
        safe = tarfile.data_filter(member, str(folder))
        part = missing.pop(safe.name, None)
        file = archive.extractfile(safe) if safe.isreg() else None
        if part is None or file is None or not _NAMES.fullmatch(safe.name):
            raise ConfigError(f"{path}: damaged; {member.name!r} does not belong into it")
        if safe.size != part.size_bytes:
            raise ConfigError(f"{path}: damaged; {safe.name} is not as long as its manifest says")
        unpacked.allow(part.size_bytes)
        with file:
            _unpack_part(path, file, safe.name, part, folder)
    if missing:
        others = f" and {len(missing) - 1:,} other files" if len(missing) > 1 else ""
        raise ConfigError(f"{path}: damaged; it lacks {min(missing)}{others}")


def _unpack_part(path: Path, file: IO[bytes], name: str, part: PackedFile, folder: Path) -> None:
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with target.open("xb") as out:
        while piece := file.read(COPY_BYTES):
            digest.update(piece)
            out.write(piece)
    if digest.hexdigest() != part.sha256:
        raise ConfigError(f"{path}: damaged; {name} is not what was packed. Copy the archive again")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what can be wrong with a file that is read into one line."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{error.filename or path}: {error.strerror or error}") from error
    except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: damaged, or no archive of a run ({error})") from error


@contextmanager
def _working_folder(target: Path) -> Iterator[Path]:
    """Make an empty folder beside ``target`` for a while.

    What a killed process left there is removed before.
    """
    folder = target.absolute().with_name(f".{target.name}.partial")
    with closing(hold(str(folder))):
        try:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700, parents=True)
            yield folder
        except OSError as error:
            raise ConfigError(f"{target}: cannot be written ({error.strerror or error})") from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
