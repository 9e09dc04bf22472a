"""What is found in binaries of all kinds; and nothing that is wrong with one harms who asks."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from chimbuko.capture.symbols import client, lookup
from chimbuko.capture.symbols.binary import Binary
from chimbuko.capture.symbols.buildid import build_id
from chimbuko.capture.symbols.cache import BinarySymbols, Request, SourceLocation, SymbolCache, binary_key
from chimbuko.capture.symbols.client import ask
from chimbuko.capture.symbols.debuglines import DebugLines
from tests.capture.symbols.programs import HERE, built, drained
from tests.places import ROOT
from tests.thorough import first

NAMES = {
    "main": "main",
    "_ZN4heat5Field3sumEid": "heat::Field::sum(int, double)",
    "_ZN4heatL5localEi": "heat::local(int)",
}
COMPILERS = ["g++", "clang++"]


def entries(path: Path) -> dict[str, int]:
    """Addresses of the functions of the test's program, by what ``nm`` says."""
    listed = subprocess.run(["nm", str(path)], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    return {row[2]: int(row[0], 16) for row in rows if len(row) == 3 and row[2] in NAMES}


def asked(path: Path, places: list[int]) -> BinarySymbols:
    return drained(ask(Request(str(path), binary_key(path), [], [], places), SymbolCache()))


def files_and_lines(path: Path) -> list[tuple[str, str, int]]:
    """Of the three functions."""
    places = entries(path)
    found = asked(path, sorted(places.values())).places
    return [
        (place.name, place.file, place.line)
        for name in NAMES
        if (place := found.get(places[name], SourceLocation("", "", 0)))
    ]


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("version", ["-gdwarf-4", "-gdwarf-5"])
@pytest.mark.parametrize(
    "options",
    first(2, [["-O2", "-ffunction-sections", "-Wl,--gc-sections"], ["-gz"], ["-no-pie"], ["-O0"]]),
    ids=str,
)
def test_functions_have_the_lines_that_addr2line_gives(
    tmp_path: Path, compiler: str, version: str, options: list[str]
) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}: apt-get install g++ clang")
    path = tmp_path / "app"
    # Without an absolute path names of files are put together.
    words = [
        compiler,
        "-finstrument-functions",
        "-fPIE",
        "-pie",
        version,
        *options,
        "tests/capture/symbols/traced.cpp",
    ]
    subprocess.run([*words, "-o", str(path), "-ldl"], check=True, cwd=ROOT)
    places = entries(path)
    assert len(places) == len(NAMES)
    theirs = subprocess.run(
        ["addr2line", "-e", str(path), *(hex(places[name]) for name in NAMES)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    expected = [line.partition(" (")[0].rpartition(":") for line in theirs]
    assert files_and_lines(path) == [
        (name, file, int(line)) for name, (file, _, line) in zip(NAMES.values(), expected, strict=True)
    ]


def test_units_are_found_without_a_table_of_them(app: Path, tmp_path: Path) -> None:
    """Not all compilers write one."""
    path = tmp_path / "app"
    subprocess.run(["objcopy", "--remove-section=.debug_aranges", str(app), str(path)], check=True)
    assert files_and_lines(path) == files_and_lines(app)


def test_who_asks_for_one_function_gets_those_of_its_unit(app: Path) -> None:
    places = entries(app)
    found = asked(app, [places["main"]])
    assert {place.name for place in found.places.values()} >= {*NAMES.values()}


def test_build_id_is_the_one_that_readelf_gives(app: Path) -> None:
    notes = subprocess.run(["readelf", "-n", str(app)], capture_output=True, text=True).stdout
    assert f"Build ID: {build_id(app)}" in notes and build_id(app)
    assert build_id(HERE / "traced.cpp") == ""


def test_binary_without_a_build_id_is_known_by_its_place_and_time(tmp_path: Path) -> None:
    path = built(tmp_path, "-Wl,--build-id=none")
    assert binary_key(path) != binary_key(Path(shutil.copy2(path, tmp_path / "copy")))


def test_cache_has_room_for_so_much(cache_folder: Path) -> None:
    cache = SymbolCache(most_bytes=3000)
    for number in range(5):
        cache.save(str(number), BinarySymbols(entry_bytes=bytes(1000)))
        os.utime(max(cache_folder.iterdir(), key=lambda file: file.stat().st_mtime_ns), (number, number))
    assert [cache.load(str(number)) is not None for number in range(5)] == [False, False, False, True, True]


@pytest.mark.parametrize("kind", ["text", "folder", "empty"])
def test_what_is_no_program_is_said_to_be_none(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "folder":
        path.mkdir()
    else:
        path.write_text("#!/bin/sh\n" * (kind == "text"))
    with pytest.raises(OSError) if kind == "folder" else pytest.MonkeyPatch.context():
        assert asked(path, [5]).problem


def test_look_up_that_ends_badly_leaves_what_it_knew(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that takes too long is ended by the kernel: names are known by then."""
    program = Path(client.__file__).with_name("lookup.py").read_text()
    hanging = program.replace("def _lines(", "def _lines(*_):\n    os.kill(os.getpid(), 9)\n\n\ndef _unused(")
    folder = app.parent / "hanging"
    folder.mkdir()
    (folder / "hanging_lookup.py").write_text(hanging)
    monkeypatch.setattr(client, "MODULE", "hanging_lookup")
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{os.environ.get('PYTHONPATH', ROOT)}")
    place = entries(app)["main"]
    found = asked(app, [place])
    assert found.places[place] == SourceLocation("main", "", 0)
    # It is not tried again, by no rank.
    monkeypatch.setattr(client, "MODULE", "no_such_module")
    assert asked(app, [place]) == found


def damaged(content: bytes, seed: int) -> bytes:
    """Some bytes changed, most of them where there is structure, or the end cut off."""
    chance = random.Random(seed)
    made = bytearray(content)
    if seed % 4 == 0:
        return bytes(made[: chance.randrange(len(made))])
    for _ in range(1 << chance.randrange(10)):
        at = chance.randrange(64) if chance.random() < 0.05 else chance.randrange(len(made))
        made[at] = chance.choice((0, 0xFF, 0x7F, 0x80, chance.randrange(256)))
    return bytes(made)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With little in it but what is looked at."""
    return built(tmp_path_factory.mktemp("small"), "-shared", "-g", source="plugin.cpp", name="libplug.so")


@pytest.mark.parametrize("seeds", [range(0, 150), range(150, 300)], ids=str)
def test_damage_is_an_error_or_a_missing_name(small: Path, tmp_path: Path, seeds: range) -> None:
    """Here without the process around it: it is there for what no test has found."""
    content = small.read_bytes()
    places = Binary(small).symbols().entries.tolist()
    path = tmp_path / "damaged.so"
    for seed in seeds:
        path.write_bytes(damaged(content, seed))
        build_id(path)
        try:
            binary = Binary(path)
            symbols = binary.symbols()
            [symbols.at(place) for place in (0, 1 << 63, *places)]
            DebugLines(binary).places(places, symbols.entries)
        except Exception:
            continue


def test_damaged_binary_is_told_in_one_line(small: Path, tmp_path: Path) -> None:
    path = tmp_path / "damaged.so"
    path.write_bytes(small.read_bytes()[:3000])
    found = asked(path, [0x1000])
    assert "\n" not in found.problem and "damaged" in found.problem
    assert lookup.STRIPPED not in found.problem
