"""Functions of real programs get the names that TAU gives those of programs that cannot be moved."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from chimbuko.capture.symbols.binary import Binary
from chimbuko.capture.symbols.cache import SymbolCache, binary_key
from chimbuko.capture.symbols.resolver import Resolver
from chimbuko.capture.symbols.taunames import (
    Unresolved,
    find_unresolved,
    is_offset_name,
    offset_name,
    with_places,
)
from tests.capture.symbols.programs import PLACES, PLUGIN, Running, built, drained, library, running
from tests.places import ROOT

APP = [PLACES[name] for name in ("main", "sum", "local")]


def resolved(program: Running, rank: int = 0, **metadata: str) -> tuple[list[str], dict[str, str]]:
    """Names, and what is said where there are none."""
    resolver = Resolver(rank)
    resolver.note_process(program.metadata(rank, **metadata))
    drained(resolver.look_up(program.names()))
    return [resolver.named(name) for name in program.names()], resolver.problems


def ended(program: Running) -> Running:
    program.process.kill()
    program.process.wait()
    return program


def test_ranks_share_their_functions(app: Path) -> None:
    with running(app) as first, running(app) as second:
        assert not {*first.names()} & {*second.names()}, "without random addresses this tests nothing"
        assert resolved(first, 0) == (APP, {})
        assert resolved(second, 1) == (APP, {})


def test_libraries_have_names_whenever_they_are_loaded(app: Path, tmp_path: Path) -> None:
    plugin = library(tmp_path)
    with running(app, plugin) as program:
        # TAU takes those that were loaded later for the program.
        program.addresses[3:] = [(address, "/proc/self/exe") for address, _ in program.addresses[3:]]
        names, problems = resolved(program)
    assert names == [*APP, PLUGIN["plugin"], PLUGIN["twice"]]
    assert problems == {}


def test_process_that_has_ended_is_told_by_the_distances_of_its_functions(app: Path) -> None:
    with running(app) as program:
        assert resolved(ended(program)) == (APP, {})


def test_process_seen_once_is_known_for_ever(app: Path, tmp_path: Path) -> None:
    plugin = library(tmp_path)
    with running(app, plugin) as program:
        resolver = Resolver(0)
        resolver.note_process(program.metadata())
        ended(program)
        # A single function, and of a library: its place could not be deduced.
        drained(resolver.look_up(program.names()[3:4]))
        assert resolver.named(program.names()[3]) == PLUGIN["plugin"]


def test_number_of_another_process_is_not_taken_for_the_programs(app: Path) -> None:
    with running(app) as program, running(app) as other:
        # The other one runs the same program, but nothing of it lies where this one's functions do.
        names, problems = resolved(ended(program), pid=str(other.process.pid))
    assert (names, problems) == (APP, {})


@pytest.mark.parametrize(
    "fact",
    [{"Executable": "/bin/sleep"}, {"Hostname": "elsewhere"}, {"Starting Timestamp": "1000000"}],
    ids=str,
)
def test_process_of_another_program_node_or_time_is_not_looked_at(app: Path, fact: dict[str, str]) -> None:
    with running(app) as program:
        resolver = Resolver(0)
        resolver.note_process(program.metadata(**fact))
        assert resolver._mapped == []


def test_binary_that_has_changed_since_is_not_trusted(app: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(app, tmp_path / "app"))
    with running(copy) as program:
        os.utime(copy, (program.began_us / 1e6 + 60,) * 2)
        names, problems = resolved(ended(program))
    assert names == program.names()
    assert "it has changed since" in problems[str(copy)]


def test_binary_that_is_gone_is_said_to_be(app: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(app, tmp_path / "app"))
    with running(copy) as program:
        copy.unlink()
        names, problems = resolved(ended(program))
    assert names == program.names()
    assert "No such file" in problems[str(copy)]


def test_binary_that_was_replaced_is_known_by_places_in_it(app: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(app, tmp_path / "app"))
    with running(copy) as first, running(copy) as second:
        copy.unlink()
        shutil.copy("/bin/true", copy)
        names, problems = resolved(first)
        assert names == resolved(second)[0]
    assert [name.partition("+0x")[0] for name in names] == ["app"] * 3
    assert "was replaced" in problems[str(copy)]


def test_stripped_binary_has_places_that_ranks_share(app: Path, tmp_path: Path) -> None:
    copy = tmp_path / "app"
    subprocess.run(["strip", "-o", str(copy), str(app)], check=True)
    # As a compiler without -rdynamic leaves it.
    bare = built(tmp_path, "-s", name="bare")
    with running(bare) as first, running(bare) as second:
        first.addresses = [(address, "(unknown)") for address, _ in first.addresses]
        names, problems = resolved(first)
        assert names == resolved(second)[0]
        assert resolved(ended(second))[0] == second.names()
    assert len({*names}) == 3 and all(name.startswith("bare+0x") for name in names)
    assert "it has no symbols" in problems[str(bare)]


@pytest.mark.parametrize("place", ["app.debug", ".debug/app.debug"])
def test_debug_symbols_may_lie_beside_the_binary(app: Path, tmp_path: Path, place: str) -> None:
    copy, debug = tmp_path / "app", tmp_path / place
    debug.parent.mkdir(exist_ok=True)
    shutil.copy(app, copy)
    with running(copy) as program:
        pass
    subprocess.run(["objcopy", "--only-keep-debug", str(app), str(debug)], check=True)
    subprocess.run(["strip", "--strip-all", str(copy)], check=True)
    with running(copy) as program:
        without, _ = resolved(program)
        assert without[2].startswith("app+0x")
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", str(copy)], check=True)
    with running(copy) as program:
        assert resolved(program) == (APP, {})


def test_without_debug_information_functions_have_names(tmp_path: Path) -> None:
    plain = built(tmp_path)
    with running(plain) as program:
        names, problems = resolved(program)
    # A function that no other file can call has its file in the symbol table.
    assert names[0] == f"main [{{{plain}}} {{0,0}}]"
    assert names[2] == "heat::local(int) [{traced.cpp} {0,0}]"
    assert problems == {}


def test_one_function_alone_may_be_too_few(tmp_path: Path, app: Path) -> None:
    with running(app) as program:
        program.addresses = program.addresses[:1]
        names, problems = resolved(ended(program), Hostname="elsewhere")
    assert names == program.names()
    assert "too few" in problems[str(app)]


def test_copies_are_one_to_the_cache(app: Path, tmp_path: Path) -> None:
    copy = shutil.copy(app, tmp_path / "copy")
    assert binary_key(app) == binary_key(Path(copy))


def test_ranks_of_a_node_look_up_together_once(app: Path, cache_folder: Path) -> None:
    """Others wait for the first one, and then have what it found."""
    with running(app) as program:
        found: list[list[str]] = []
        threads = [
            threading.Thread(target=lambda rank=rank: found.append(resolved(program, rank)[0]))
            for rank in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [APP] * 6
    assert len([*cache_folder.iterdir()]) == 1
    assert SymbolCache().load(binary_key(app)) is not None


@pytest.mark.parametrize("damage", [b"", b"x" * 1000])
def test_damaged_cache_is_only_slower(app: Path, cache_folder: Path, damage: bytes) -> None:
    with running(app) as program:
        assert resolved(program) == (APP, {})
        for kept in cache_folder.iterdir():
            kept.write_bytes(damage)
        assert resolved(program) == (APP, {})


def test_cache_without_a_place_is_only_slower(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    with running(app) as program:
        assert resolved(program) == (APP, {})


def test_look_up_outlives_a_reader_that_is_killed(app: Path, tmp_path: Path) -> None:
    """Its successor waits for that, and does not begin another one."""
    slow = tmp_path / "slow_lookup.py"
    slow.write_text(
        "import os, time\n"
        f"open({str(tmp_path / 'begun')!r}, 'a').write('x')\n"
        f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)\n"
        "from chimbuko.capture.symbols import lookup\nlookup.main()\n"
    )
    asker = (
        "import sys\nfrom pathlib import Path\nfrom chimbuko.capture.symbols import cache, client\n"
        "from tests.capture.symbols.programs import drained\n"
        "client.MODULE = 'slow_lookup'\n"
        "path = Path(sys.argv[1])\n"
        "request = cache.Request(str(path), cache.binary_key(path), [], [], [int(sys.argv[2])])\n"
        "print(drained(client.ask(request, cache.SymbolCache())).places[int(sys.argv[2])].name)\n"
    )
    place = str(int(Binary(app).symbols().entries[-1]))
    words = [sys.executable, "-c", asker, str(app), place]
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    with subprocess.Popen(words, env=environment) as first:
        while not (tmp_path / "begun").exists():
            assert first.poll() is None
            time.sleep(0.01)
        first.kill()
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as second:
        (tmp_path / "go").touch()
        said, _ = second.communicate()
    assert said.strip()
    assert (tmp_path / "begun").read_text() == "x"


@pytest.mark.parametrize(
    ("name", "found", "made"),
    [
        ("addr=<55d1> [{/a/app} {0,0}]", (0x55D1, "/a/app", True), "f(int) [{/a/f.cpp} {7,0}]"),
        ("addr=<0x55d1> [{(unknown)} {0,0}]", (0x55D1, "", True), "f(int) [{/a/f.cpp} {7,0}]"),
        ("addr=<55d1> [{/proc/self/exe} {0,0}]", (0x55D1, "", True), "f(int) [{/a/f.cpp} {7,0}]"),
        (
            "[PTHREAD] addr=<55d1> [{/a/app} {0, 0}]",
            (0x55D1, "/a/app", True),
            "[PTHREAD] f(int) [{/a/f.cpp} {7, 0}]",
        ),
        (
            "OpenMP_Parallel addr=<55d1> [{/a/app} {0,0}]",
            (0x55D1, "/a/app", False),
            "OpenMP_Parallel f(int) [{/a/f.cpp} {7,0}]",
        ),
    ],
)
def test_forms_of_tau(name: str, found: tuple[int, str, bool], made: str) -> None:
    assert find_unresolved(name) == [Unresolved(*found)]
    assert with_places(name, {0x55D1: ("f(int)", "/a/f.cpp", 7)}.get) == made
    assert with_places(name, {}.get) == name


def test_paths_of_calls_have_several() -> None:
    name = "main => addr=<1> [{/a} {0,0}] => addr=<2> [{/a} {0,0}]"
    assert [(found.address, found.is_entry) for found in find_unresolved(name)] == [(1, True), (2, True)]
    assert with_places(name, {2: ("g", "g.c", 1)}.get) == "main => addr=<1> [{/a} {0,0}] => g [{g.c} {1,0}]"


@pytest.mark.parametrize("name", ["main [{app.c} {1,0}]", "addr=<xyz> [{a} {0,0}]", "addr=<1", "", "addr=<>"])
def test_other_names_stay(name: str) -> None:
    assert find_unresolved(name) == []
    assert with_places(name, {}.get) == name


def test_places_without_a_name_are_known_as_such() -> None:
    assert is_offset_name(f"{offset_name('/a/app', 4660)} [{{/a/app}} {{0,0}}]")
    assert offset_name("/a/app", 4660) == "app+0x1234"
    assert not is_offset_name("Vector operator+(Vector, Vector) [{/a/v.cpp} {3,0}]")
