"""From a stream with addresses to functions that its ranks share, by way of the reader and of a whole run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from chimbuko.capture.symbols import client
from chimbuko.capture.symbols.lookup import STRIPPED
from chimbuko.capture.trace.reader import TOO_LATE, WAIT, StreamReader, UnnamedFunctions
from chimbuko.capture.trace.source import Waiting
from chimbuko.core.traceschema import UNNAMED_FUNCTIONS, StreamNames, TraceStep
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from tests.capture.symbols.programs import PLACES, built, running
from tests.capture.symbols.traced_ranks import write_rank
from tests.places import ROOT
from tests.thorough import first

APP = [PLACES[name] for name in ("main", "sum", "local")]


def names_of(path: Path, rank: int) -> tuple[list[str], StreamNames]:
    with StreamReader(path, "BPFile", rank=rank) as reader:
        assert isinstance(reader.next_step(20), TraceStep)
        return [name for _, name in sorted(reader.names.timers.items())][1:], reader.names


def test_reader_of_a_run_names_functions_by_its_process(app: Path, tmp_path: Path) -> None:
    with running(app) as first, running(app) as second:
        assert first.names() != second.names()
        for rank, program in enumerate((first, second)):
            assert names_of(write_rank(tmp_path / "tau-metrics", program, rank), rank)[0] == APP


def test_instances_of_a_program_have_ranks_of_their_own(app: Path, tmp_path: Path) -> None:
    with running(app) as program:
        path = write_rank(tmp_path / "tau-metrics", program, 0)
        with StreamReader(path, "BPFile", rank=4, first_rank=4) as reader:
            reader.next_step(20)
            assert reader.names.timers[1] == PLACES["main"]


def test_what_cannot_be_named_is_told_apart_by_its_rank_and_says_why(app: Path, tmp_path: Path) -> None:
    with running(app) as program:
        program.executable = Path("/nowhere/app")
        program.addresses = [(address, "/nowhere/app") for address, _ in program.addresses]
    found, names = names_of(write_rank(tmp_path / "tau-metrics", program, 3), 3)
    assert found == [f"{name} (rank 3)" for name in program.names()]
    assert "No such file" in names.metadata[3, 0, f"{UNNAMED_FUNCTIONS}/nowhere/app"]


def test_what_a_trace_s_streams_cannot_name_for_the_same_reason_is_said_once(
    app: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with running(app) as program:
        program.executable = Path("/nowhere/once")
        program.addresses = [(address, "/nowhere/once") for address, _ in program.addresses]
    for rank in range(3):
        names_of(write_rank(tmp_path / "tau-metrics", program, rank), rank)
    assert capfd.readouterr().err.count("functions of /nowhere/once have no name") == 1


def test_caller_that_polls_is_not_kept_waiting(
    app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has to show that it lives; the step waits with its names, and no row comes before them."""
    slow = tmp_path / "slow_lookup.py"
    slow.write_text(
        "import os, sys, time\n"
        f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)\n"
        "from chimbuko.capture.symbols import lookup\nlookup.main()\n"
    )
    monkeypatch.setattr(client, "MODULE", "slow_lookup")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    monkeypatch.setattr("chimbuko.capture.trace.reader.LOOK_UP_PATIENCE_S", 0.05)
    with (
        running(app) as program,
        StreamReader(write_rank(tmp_path / "tau-metrics", program, 0), "BPFile", rank=0) as reader,
    ):
        assert [reader.next_step(0.0) for _ in range(3)] == [Waiting.NOT_READY] * 3
        assert 1 not in reader.names.timers
        (tmp_path / "go").touch()
        while (got := reader.next_step(0.0)) is Waiting.NOT_READY:
            pass
        assert isinstance(got, TraceStep) and len(got.events) == 8
        assert reader.names.timers[1] == PLACES["main"]


@pytest.mark.parametrize("timeout_s", [0.0, WAIT])
def test_step_of_a_program_that_has_ended_is_not_lost_over_its_names(
    app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, timeout_s: float
) -> None:
    """Soon an agent gives up streams that bring nothing."""
    (tmp_path / "endless_lookup.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr(client, "MODULE", "endless_lookup")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("chimbuko.capture.trace.reader.LOOK_UP_PATIENCE_S", 0.1)
    monkeypatch.setattr("chimbuko.capture.trace.reader.AFTER_END_S", 0.5)
    with running(app) as program:
        path = write_rank(tmp_path / "tau-metrics", program, 0)
    with StreamReader(path, "BPFile", rank=0) as reader:
        while (got := reader.next_step(timeout_s)) is Waiting.NOT_READY:
            pass
        assert isinstance(got, TraceStep) and len(got.events) == 8
        assert reader.names.timers[1] == f"{program.names()[0]} (rank 0)"
        # Nothing would help that is to be done with the program.
        (said,) = (
            text for key, text in reader.names.metadata.items() if key[2].startswith(UNNAMED_FUNCTIONS)
        )
        assert said == TOO_LATE


def test_names_are_waited_for_after_the_program_s_end_however_long_it_ran(
    app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_lookup.py").write_text(
        "import os, time\n"
        f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)\n"
        "from chimbuko.capture.symbols import lookup\nlookup.main()\n"
    )
    monkeypatch.setattr(client, "MODULE", "slow_lookup")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    names = StreamNames()
    with running(app) as program:
        names.metadata |= program.metadata(0)
        unnamed = UnnamedFunctions(tmp_path, 0, names)
        unnamed.put("timer", 1, program.names()[0])
        assert not unnamed.find(0.0)
        # It runs for longer than what is waited for after its end.
        time.sleep(0.3)
    assert not unnamed.find(0.0, after_end_s=0.2)
    (tmp_path / "go").touch()
    assert unnamed.find()
    assert names.timers[1] == PLACES["main"]


def test_whatever_goes_wrong_the_stream_is_read(
    app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise MemoryError("no more")

    monkeypatch.setattr("chimbuko.capture.symbols.resolver.binary_key", broken)
    with running(app) as program:
        found, _ = names_of(write_rank(tmp_path / "tau-metrics", program, 0), 0)
    assert found == [f"{name} (rank 0)" for name in program.names()]
    assert capfd.readouterr().err.count("MemoryError") == 1


def run(folder: Path, *words: str) -> dict[str, Any]:
    """What a run says."""
    done = subprocess.run(
        [sys.executable, "-m", "chimbuko", "run", "--json", "--no-dashboard", "-o", "found", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def functions_of(folder: Path) -> dict[str, int]:
    with open_run(RunDirectory(folder / "found")) as provenance:
        return {function.name: function.calls for function in provenance.function_statistics()}


def test_ranks_of_a_recorded_run_share_functions(app: Path, tmp_path: Path) -> None:
    with running(app) as first, running(app) as second:
        for rank, program in enumerate((first, second)):
            write_rank(tmp_path / "tau-metrics", program, rank, steps=5)
        said = run(tmp_path, "--trace", f"{tmp_path}/tau-metrics-*.bp")
    assert said["unresolved"] == {}
    assert functions_of(tmp_path) == dict.fromkeys(APP, 2 * 5)


@pytest.mark.parametrize("transport", first(1, ["files", "sst"]))
def test_ranks_of_a_live_run_share_functions(app: Path, tmp_path: Path, transport: str) -> None:
    # A run would record a Python that it is given.
    words = ["env", sys.executable, "-m", "tests.capture.symbols.traced_ranks", str(app), "2"]
    said = run(tmp_path, "--transport", transport, "--", *words)
    assert said["unresolved"] == {} and said["ranks"] == 2
    assert functions_of(tmp_path).keys() == {*APP}


def test_run_says_why_functions_have_no_name(tmp_path: Path) -> None:
    bare = built(tmp_path, "-s", name="bare")
    words = ["env", sys.executable, "-m", "tests.capture.symbols.traced_ranks", str(bare), "2"]
    said = run(tmp_path, "--", *words)
    assert said["unresolved"] == {"app": 3}
    assert said["unnamed"] == {"app": [f"{bare}: {STRIPPED}"]}
