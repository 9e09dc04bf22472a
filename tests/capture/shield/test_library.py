"""The shield's library: built once, kept for this user, and without effect where there is no ADIOS2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chimbuko.capture.trace.shield import shield_environment, shield_library, shield_problems
from chimbuko.core.errors import ConfigError

BUILD = "from chimbuko.capture.trace.shield import shield_library; print(shield_library())"


def surroundings(folder: Path, **variables: str) -> dict[str, str]:
    return {**os.environ, "XDG_CACHE_HOME": str(folder), **variables}


def executable(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_it_is_built_once_for_this_user(tmp_path: Path) -> None:
    environment = surroundings(tmp_path)
    library = shield_library(environment)
    built_ns = library.stat().st_mtime_ns
    assert library.parent == tmp_path / "chimbuko"
    assert library.parent.stat().st_mode & 0o777 == 0o700
    assert shield_library(environment) == library
    assert library.stat().st_mtime_ns == built_ns
    assert shield_library(environment, builds=("other+other",)) != library
    assert len(list(library.parent.iterdir())) == 2


def test_processes_that_build_it_at_the_same_time_do_not_meet(tmp_path: Path) -> None:
    words = [sys.executable, "-c", BUILD]
    builders = [
        subprocess.Popen(words, env=surroundings(tmp_path), stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    reported = {builder.communicate()[0].strip() for builder in builders}
    assert [builder.returncode for builder in builders] == [0, 0]
    assert [str(path) for path in (tmp_path / "chimbuko").iterdir()] == list(reported)


def test_without_a_compiler_one_line_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no C compiler for the shield \(cc, gcc, clang not found\)"):
        shield_library(surroundings(tmp_path, PATH=str(tmp_path), CC=""))
    with pytest.raises(ConfigError, match=r"CC=no-such-compiler -m64 not found"):
        shield_library(surroundings(tmp_path, CC="no-such-compiler -m64"))
    broken = executable(tmp_path / "broken", "#!/bin/sh\necho 'error: out of order' >&2\nexit 1\n")
    with pytest.raises(ConfigError, match=r"broken cannot build the shield \(error: out of order\)"):
        shield_library(surroundings(tmp_path, CC=str(broken)))
    assert list((tmp_path / "chimbuko").iterdir()) == []


def test_a_folder_that_others_could_write_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "shared" / "chimbuko").mkdir(parents=True)
    (tmp_path / "shared" / "chimbuko").chmod(0o777)
    (tmp_path / "file").touch()
    (tmp_path / "with blank").mkdir()
    for cache in ("shared", "file", "with blank", "no:path"):
        library = shield_library(surroundings(tmp_path / cache, TMPDIR=str(tmp_path)))
        assert library.parent == tmp_path / f"chimbuko-{os.getuid()}"
    with pytest.raises(ConfigError, match="set XDG_CACHE_HOME to a folder of your own"):
        shield_library(surroundings(tmp_path / "shared", TMPDIR=str(tmp_path / "file")))


def test_a_library_that_cannot_be_loaded_is_not_given_to_anybody(tmp_path: Path) -> None:
    useless = executable(
        tmp_path / "useless", '#!/bin/sh\nfor word; do [ "$last" = -o ] && echo > "$word"; last=$word; done\n'
    )
    with pytest.raises(ConfigError, match="cannot be kept"):
        shield_library(surroundings(tmp_path, CC=str(useless), TMPDIR=str(tmp_path)))


@pytest.mark.parametrize("program", [["true"], [sys.executable, "-S", "-c", "import json; print(3)"]])
def test_programs_without_adios2_do_not_notice_it(tmp_path: Path, program: list[str]) -> None:
    reports = tmp_path / "reports"
    reports.mkdir()
    environment = shield_environment(reports, surroundings(tmp_path, LD_PRELOAD=""))
    with_it = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    without = subprocess.run(program, capture_output=True, text=True, check=True)
    assert (with_it.stdout, with_it.stderr) == (without.stdout, without.stderr)
    assert list(reports.iterdir()) == []
    assert shield_problems(reports) == []


def test_what_the_user_preloads_stays_behind_it(tmp_path: Path) -> None:
    environment = shield_environment(
        tmp_path, surroundings(tmp_path, LD_PRELOAD="/a/libtau.so:libb.so", X="1")
    )
    first, behind = environment["LD_PRELOAD"].split(" ")
    assert (Path(first).suffix, behind) == (".so", "/a/libtau.so:libb.so")
    assert environment["CHIMBUKO_SHIELD_REPORT"] == str(tmp_path)
    assert environment["X"] == "1"
