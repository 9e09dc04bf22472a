"""A run becomes one file and a run again; no file, whatever is in it, does harm."""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chimbuko.core.errors import ChimbukoError, ConfigError, ServiceError, StoreError
from chimbuko.provenance.manage.archive import (
    FORMAT,
    MANIFEST,
    Manifest,
    PackedFile,
    is_archive,
    unpack_archive,
    write_archive,
)
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.store.engine import open_for_reading
from chimbuko.runtime.process.nameholding import hold
from chimbuko.runtime.runs.directory import MOST_INFO_BYTES, RunDirectory
from tests.provenance.store.test_migrations import colours, release_next
from tests.provenance.whole_runs import answers_of, limited_files, make_whole_run, move_to
from tests.viz.made_run import MadeRun

STEPS = 8


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadeRun:
    return make_whole_run(tmp_path_factory.mktemp("made") / "heat", STEPS)


@pytest.fixture(scope="module")
def packed(made: MadeRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of ``made``."""
    path = tmp_path_factory.mktemp("packed") / "heat.tar.xz"
    write_archive(made.directory, path)
    return path


def repack(path: Path, members: dict[str, bytes | tarfile.TarInfo]) -> None:
    """Make a tar archive of these."""
    with tarfile.open(path, "w:xz", preset=0) as archive:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
                continue
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def contents(path: Path) -> dict[str, bytes | tarfile.TarInfo]:
    with tarfile.open(path) as archive:
        return {member.name: content(archive, member) for member in archive}


def content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None
    return file.read()


def with_manifest(members: dict[str, bytes | tarfile.TarInfo]) -> dict[str, bytes | tarfile.TarInfo]:
    """With a manifest that says that all of these belong there."""
    parts = {name: part_of(value) for name, value in members.items() if name != MANIFEST}
    manifest = Manifest(FORMAT, "0123456789ab", "heat", "0.1.0", parts)
    return {MANIFEST: msgspec.json.encode(manifest)} | {n: v for n, v in members.items() if n != MANIFEST}


def part_of(value: bytes | tarfile.TarInfo) -> PackedFile:
    known = value if isinstance(value, bytes) else b""
    return PackedFile(len(known), hashlib.sha256(known).hexdigest())


@pytest.mark.parametrize("is_postgresql", [False, True])
def test_what_is_unpacked_is_what_was_packed(
    is_postgresql: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    run = make_whole_run(tmp_path / "heat", STEPS).directory
    wanted = answers_of(run)
    if is_postgresql:
        move_to(run, request.getfixturevalue("postgresql_url"))
    archived = write_archive(run, tmp_path / "heat.tar.xz")
    assert archived.size_bytes == (tmp_path / "heat.tar.xz").stat().st_size
    with tarfile.open(archived.file) as archive:
        names = archive.getnames()
    assert names == [
        MANIFEST,
        *("run.json", "provenance.sqlite", "model.msgpack", "report.json.gz", "observed.msgpack"),
        "logs/agent-0.log",
    ]
    assert b"hush" not in lzma.decompress((tmp_path / "heat.tar.xz").read_bytes())

    unpacked = unpack_archive(tmp_path / "heat.tar.xz", tmp_path / "elsewhere", None, None)
    again = RunDirectory(tmp_path / "elsewhere" / "heat")
    assert unpacked.folder == str(again.path)
    assert answers_of(again) == wanted
    changed = {"store_url": f"sqlite:///{again.store_path}"}
    assert again.read_info() == msgspec.structs.replace(run.read_info(), **changed)
    assert again.path.stat().st_mode & 0o777 == 0o700
    for path in (run.model_path, run.report_path, run.logs / "agent-0.log"):
        assert (again.path / path.relative_to(run.path)).read_bytes() == path.read_bytes()
    assert sorted(path.name for path in (tmp_path / "elsewhere").iterdir()) == ["heat"]


def test_a_log_of_the_database_is_packed_too(tmp_path: Path) -> None:
    run = make_whole_run(tmp_path / "heat", STEPS).directory
    writer = sqlite3.connect(run.store_path)
    writer.execute("UPDATE programs SET name = 'in the log'")
    writer.commit()
    assert run.store_path.with_name("provenance.sqlite-wal").stat().st_size
    write_archive(run, tmp_path / "heat.tar.xz")
    writer.close()
    unpack_archive(tmp_path / "heat.tar.xz", tmp_path / "elsewhere", None, None)
    assert answers_of(RunDirectory(tmp_path / "elsewhere" / "heat"))["programs"] == {0: "in the log"}


def test_what_a_link_leads_to_is_not_packed(made: MadeRun, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("mine")
    for path in (made.directory.logs / "key.log", made.directory.observed_path):
        path.unlink(missing_ok=True)
        path.symlink_to(tmp_path / "key")
    write_archive(made.directory, tmp_path / "a.tar.xz")
    assert {"logs/key.log", "observed.msgpack"}.isdisjoint(contents(tmp_path / "a.tar.xz"))


def test_provenance_can_go_into_postgresql(
    made: MadeRun, packed: Path, tmp_path: Path, postgresql_url: str
) -> None:
    first = unpack_archive(packed, tmp_path, tmp_path / "first", postgresql_url)
    run = RunDirectory(tmp_path / "first")
    assert not first.was_stored
    assert "hush" not in first.store + run.info_path.read_text()
    assert not run.store_path.exists()
    assert run.store_url_path.stat().st_mode & 0o777 == 0o600
    assert answers_of(run) == answers_of(made.directory)
    # Where a process was killed between the two, repeating it ends it.
    second = unpack_archive(packed, tmp_path, tmp_path / "other" / "second", postgresql_url)
    assert second.was_stored
    assert answers_of(RunDirectory(tmp_path / "other" / "second")) == answers_of(made.directory)


def test_what_is_there_already_is_said(packed: Path, tmp_path: Path) -> None:
    unpack_archive(packed, tmp_path, None, None)
    for folder in (None, tmp_path / "other"):
        with pytest.raises(ConfigError, match=r"this run is here already, in .*/heat$"):
            unpack_archive(packed, tmp_path, folder, None)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    (tmp_path / "empty" / "folder").mkdir(parents=True)
    with pytest.raises(ConfigError, match="choose another folder with --output"):
        unpack_archive(packed, tmp_path, tmp_path / "full" / "notes.txt", None)
    unpack_archive(packed, tmp_path, tmp_path / "empty" / "folder", None)


def test_an_archive_replaces_a_file_whole(made: MadeRun, tmp_path: Path) -> None:
    path = tmp_path / "heat.tar.xz"
    path.write_text("what was there")
    with limited_files(20_000), pytest.raises(ChimbukoError):
        write_archive(made.directory, path)
    assert path.read_text() == "what was there"
    assert list(tmp_path.iterdir()) == [path]
    write_archive(made.directory, path)
    assert is_archive(path)
    assert list(tmp_path.iterdir()) == [path]


def test_what_does_not_fit_on_the_disk_is_not_unpacked(packed: Path, tmp_path: Path) -> None:
    with limited_files(20_000), pytest.raises(ChimbukoError):
        unpack_archive(packed, tmp_path, None, None)
    assert list(tmp_path.iterdir()) == []


def test_two_processes_do_not_write_the_same_archive(made: MadeRun, tmp_path: Path) -> None:
    with hold(str(tmp_path / ".heat.tar.xz.partial")), pytest.raises(ServiceError, match="at work there"):
        write_archive(made.directory, tmp_path / "heat.tar.xz")


def test_a_folder_that_cannot_be_written_is_named(made: MadeRun, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"heat\.tar\.xz: cannot be written \(Not a directory\)"):
        write_archive(made.directory, tmp_path / "file" / "heat.tar.xz")


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None
)
@given(data=st.data())
def test_a_damaged_archive_is_refused_or_does_no_harm(
    made: MadeRun, packed: Path, tmp_path: Path, data: st.DataObject
) -> None:
    whole = packed.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    flipped = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    damaged = tmp_path / "damaged.tar.xz"
    for content in (flipped, whole[:at]):
        damaged.write_bytes(content)
        try:
            unpack_archive(damaged, tmp_path, tmp_path / "run", None)
        except ConfigError as error:
            assert "damaged" in str(error)
        else:
            # What follows the last part is not read.
            assert answers_of(RunDirectory(tmp_path / "run")) == answers_of(made.directory)
            shutil.rmtree(tmp_path / "run")
        assert list(tmp_path.iterdir()) == [damaged]


@pytest.mark.parametrize("name", ["run.json", "provenance.sqlite", "logs/agent-0.log"])
def test_what_is_not_as_it_was_packed_is_refused(packed: Path, tmp_path: Path, name: str) -> None:
    members = contents(packed)
    original = members[name]
    assert isinstance(original, bytes)
    repack(tmp_path / "a.tar.xz", members | {name: original[:-1] + b"?"})
    with pytest.raises(ConfigError, match=f"{name} is not what was packed"):
        unpack_archive(tmp_path / "a.tar.xz", tmp_path, None, None)
    del members[name]
    repack(tmp_path / "a.tar.xz", members)
    with pytest.raises(ConfigError, match=f"lacks {name}"):
        unpack_archive(tmp_path / "a.tar.xz", tmp_path, None, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar.xz"]


def declaring(packed: Path, **parts: PackedFile) -> dict[str, bytes | tarfile.TarInfo]:
    """The members of an archive whose manifest has other parts for some files (``_`` for a point)."""
    members = contents(packed)
    text = members[MANIFEST]
    assert isinstance(text, bytes)
    manifest = msgspec.json.decode(text, type=Manifest)
    files = manifest.files | {name.replace("_", "."): part for name, part in parts.items()}
    return members | {MANIFEST: msgspec.json.encode(msgspec.structs.replace(manifest, files=files))}


def test_no_more_is_unpacked_than_the_manifest_declares(packed: Path, tmp_path: Path) -> None:
    huge = bytes(64 << 20)
    members = declaring(packed, model_msgpack=PackedFile(5, hashlib.sha256(huge).hexdigest()))
    repack(tmp_path / "a.tar.xz", members | {"model.msgpack": huge})
    assert (tmp_path / "a.tar.xz").stat().st_size < 1_000_000
    # No file may become so long here.
    with limited_files(32 << 20), pytest.raises(ConfigError, match=r"model\.msgpack is not as long as"):
        unpack_archive(tmp_path / "a.tar.xz", tmp_path, None, None)
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar.xz"]


def test_what_there_is_no_room_for_is_refused_before_it_is_unpacked(packed: Path, tmp_path: Path) -> None:
    repack(tmp_path / "a.tar.xz", declaring(packed, model_msgpack=PackedFile(1 << 60, "")))
    with pytest.raises(ConfigError, match="takes 1,152,921,504,") as raised:
        unpack_archive(tmp_path / "a.tar.xz", tmp_path, None, None)
    assert "has room for" in str(raised.value)
    repack(tmp_path / "a.tar.xz", declaring(packed, model_msgpack=PackedFile(-(1 << 60), "")))
    with pytest.raises(ConfigError, match="damaged"):
        unpack_archive(tmp_path / "a.tar.xz", tmp_path, None, None)


def test_a_header_without_measure_is_refused(packed: Path, tmp_path: Path) -> None:
    header = tarfile.TarInfo("header")
    header.type, header.size = tarfile.XHDTYPE, 80 << 20
    with lzma.open(tmp_path / "a.tar.xz", "wb", preset=0) as file:
        file.write(header.tobuf(tarfile.PAX_FORMAT))
        file.write(bytes(80 << 20))
    assert not is_archive(tmp_path / "a.tar.xz")
    with pytest.raises(ConfigError, match="a header is too long"):
        unpack_archive(tmp_path / "a.tar.xz", tmp_path, None, None)


def test_a_list_of_holes_without_measure_is_refused(packed: Path, tmp_path: Path) -> None:
    holes = b"9999999\n" + b"0\n" * (2 << 20)
    sparse = tarfile.TarInfo("run.json")
    sparse.size = len(holes)
    sparse.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "5"}
    with tarfile.open(tmp_path / "a.tar.xz", "w:xz", preset=0) as archive:
        manifest = contents(packed)[MANIFEST]
        assert isinstance(manifest, bytes)
        member = tarfile.TarInfo(MANIFEST)
        member.size = len(manifest)
        archive.addfile(member, io.BytesIO(manifest))
        archive.addfile(sparse, io.BytesIO(holes))
    with pytest.raises(ConfigError, match="a header is too long"):
        unpack_archive(tmp_path / "a.tar.xz", tmp_path, None, None)


def test_many_files_that_are_missing_are_one_short_line(packed: Path, tmp_path: Path) -> None:
    many = {f"logs/{number}.log": PackedFile(0, "") for number in range(1000)}
    repack(tmp_path / "a.tar.xz", declaring(packed, **many))
    with pytest.raises(ConfigError, match=r"it lacks logs/0\.log and 999 other files$"):
        unpack_archive(tmp_path / "a.tar.xz", tmp_path, None, None)


def test_a_description_without_measure_is_refused(packed: Path, tmp_path: Path) -> None:
    huge = bytes(MOST_INFO_BYTES + 1)
    members = declaring(packed, run_json=PackedFile(len(huge), hashlib.sha256(huge).hexdigest()))
    repack(tmp_path / "a.tar.xz", members | {"run.json": huge})
    with pytest.raises(ConfigError, match="File too large"):
        unpack_archive(tmp_path / "a.tar.xz", tmp_path, None, None)


def test_a_manifest_that_exhausts_a_parser_is_one_line(tmp_path: Path) -> None:
    for value in (b"[" * 100_000 + b"]" * 100_000, b"9" * 10_000):
        repack(tmp_path / "a.tar.xz", {MANIFEST: b'{"format": 1, "files": ' + value + b"}"})
        with pytest.raises(ConfigError, match="damaged") as raised:
            unpack_archive(tmp_path / "a.tar.xz", tmp_path, None, None)
        assert len(str(raised.value)) < 300 and "\n" not in str(raised.value)


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


@pytest.mark.parametrize(
    "evil",
    [
        {"../outside": b"x"},
        {"/tmp/outside": b"x"},
        {"logs/../../outside": b"x"},
        {"logs/a.log": special("logs/a.log", tarfile.SYMTYPE, "/etc/passwd")},
        {"logs/a.log": special("logs/a.log", tarfile.SYMTYPE, "../run.json")},
        {"logs/a.log": special("logs/a.log", tarfile.LNKTYPE, "run.json")},
        {"logs/a.log": special("logs/a.log", tarfile.CHRTYPE)},
        {"logs/a.log": special("logs/a.log", tarfile.FIFOTYPE)},
        {"logs": special("logs", tarfile.DIRTYPE)},
        {"settings/node": b"rm -rf ~"},
        {"broker": b"redis://elsewhere"},
        {"store": b"postgresql://elsewhere"},
    ],
    ids=lambda evil: "-".join(evil),
)
def test_what_does_not_belong_into_a_run_is_refused(
    packed: Path, tmp_path: Path, evil: dict[str, bytes | tarfile.TarInfo]
) -> None:
    folder = tmp_path / "deep" / "folder"
    folder.mkdir(parents=True)
    repack(tmp_path / "a.tar.xz", with_manifest(contents(packed) | evil))
    with pytest.raises(ConfigError, match="damaged"):
        unpack_archive(tmp_path / "a.tar.xz", folder, None, None)
    assert not list(folder.iterdir())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar.xz", "deep"]


@pytest.mark.parametrize("name", ["../heat", "/tmp/heat", ".heat", "", "a\nb", "x" * 300])
def test_a_name_that_leads_elsewhere_is_refused(packed: Path, tmp_path: Path, name: str) -> None:
    members = contents(packed)
    text = members[MANIFEST]
    assert isinstance(text, bytes)
    manifest = msgspec.structs.replace(msgspec.json.decode(text, type=Manifest), name=name)
    repack(tmp_path / "a.tar.xz", members | {MANIFEST: msgspec.json.encode(manifest)})
    with pytest.raises(ConfigError, match="cannot be the name of a run"):
        unpack_archive(tmp_path / "a.tar.xz", tmp_path, None, None)


def test_an_archive_of_a_newer_chimbuko_is_refused_in_one_line(packed: Path, tmp_path: Path) -> None:
    newer = msgspec.json.encode({"format": FORMAT + 1, "shape": "unknown"})
    repack(tmp_path / "a.tar.xz", {MANIFEST: newer})
    assert is_archive(tmp_path / "a.tar.xz")
    with pytest.raises(ConfigError, match=f"an archive of format {FORMAT + 1}, this Chimbuko reads {FORMAT}"):
        unpack_archive(tmp_path / "a.tar.xz", tmp_path, None, None)


@pytest.mark.parametrize(
    ("version", "said"), [("9999", "has the layout 9999"), ("0012", "from before the first release")]
)
def test_provenance_of_an_unknown_layout_is_refused(
    packed: Path, tmp_path: Path, version: str, said: str
) -> None:
    store = tmp_path / "other.sqlite"
    (members := contents(packed)).pop(MANIFEST)
    assert isinstance(members["provenance.sqlite"], bytes)
    store.write_bytes(members["provenance.sqlite"])
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (version,))
    connection.close()
    repack(tmp_path / "a.tar.xz", with_manifest(members | {"provenance.sqlite": store.read_bytes()}))
    with pytest.raises(StoreError, match=said):
        unpack_archive(tmp_path / "a.tar.xz", tmp_path, None, None)
    assert not (tmp_path / "heat").exists()


def test_provenance_of_an_earlier_release_is_brought_up_to_date(
    made: MadeRun, packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Provenance(open_for_reading(made.directory.store_url)) as provenance:
        calls = provenance.calls.count(CallFilter(label=None))
    release_next(monkeypatch, tmp_path)
    unpack_archive(packed, tmp_path, tmp_path / "run", None)
    url = RunDirectory(tmp_path / "run").store_url
    assert colours(url) == ["green"]
    with Provenance(open_for_reading(url)) as provenance:
        assert provenance.calls.count(CallFilter(label=None)) == calls > 0


@pytest.mark.parametrize("text", [b"", b"no archive", lzma.compress(b"no tar")])
def test_what_is_no_archive_is_reported(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "a").write_bytes(text)
    assert not is_archive(tmp_path / "a")
    with pytest.raises(ConfigError, match=r"a: damaged, or no archive of a run"):
        unpack_archive(tmp_path / "a", tmp_path, None, None)
    with pytest.raises(ConfigError, match="No such file"):
        unpack_archive(tmp_path / "b", tmp_path, None, None)


WORK = """
import sys
from pathlib import Path
from chimbuko.provenance.manage.archive import unpack_archive, write_archive
from chimbuko.runtime.runs.directory import RunDirectory

run, archive, parent = map(Path, sys.argv[1:])
write_archive(RunDirectory(run), archive) if run.exists() else unpack_archive(archive, parent, None, None)
"""


def kill_at(path: Path, arguments: list[Path]) -> None:
    """Start the work of ``WORK``, and kill it as soon as a file is there."""
    process = subprocess.Popen([sys.executable, "-c", WORK, *map(str, arguments)])
    while not path.exists() and process.poll() is None:
        time.sleep(0.0005)
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_a_killed_archiver_leaves_no_half_archive(made: MadeRun, tmp_path: Path) -> None:
    archive = tmp_path / "heat.tar.xz"
    kill_at(tmp_path / ".heat.tar.xz.partial" / "run.json", [made.directory.path, archive, tmp_path])
    assert not archive.exists() or is_archive(archive)
    write_archive(made.directory, archive)
    assert os.listdir(tmp_path) == ["heat.tar.xz"]
    unpack_archive(archive, tmp_path, tmp_path / "run", None)
    assert answers_of(RunDirectory(tmp_path / "run")) == answers_of(made.directory)


def test_a_killed_import_leaves_no_half_run(made: MadeRun, packed: Path, tmp_path: Path) -> None:
    kill_at(tmp_path / ".heat.partial" / "logs", [tmp_path / "none", packed, tmp_path])
    if not (tmp_path / "heat").exists():
        unpack_archive(packed, tmp_path, None, None)
    assert os.listdir(tmp_path) == ["heat"]
    assert answers_of(RunDirectory(tmp_path / "heat")) == answers_of(made.directory)
