"""What times of repetitions say, by hand and beside scipy."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from chimbuko.cli import main
from chimbuko.plan.overhead import overhead
from chimbuko.plan.overheadswitch import PLAINLY, is_plain, without_tau
from tests.patience import PATIENCE_S

TIMES = st.lists(
    st.tuples(st.floats(1.0, 20.0), st.floats(1.0, 20.0), st.floats(1.0, 20.0)), min_size=2, max_size=15
)


def test_a_slowdown_is_positive_and_shares_add_up() -> None:
    found = overhead([10.0, 10.0, 10.0], [10.5, 10.4, 10.6], [10.4, 10.3, 10.5])
    assert found.tracing.share == pytest.approx(0.05)
    assert found.both.share == pytest.approx(0.04)
    assert found.analysis.share == pytest.approx(-0.01)
    assert found.traced.mean_s == pytest.approx(10.5)
    assert found.traced.deviation_s == pytest.approx(0.1)
    # 4.303 is the quantile of two degrees of freedom.
    assert found.tracing.interval == pytest.approx(
        (0.05 - 4.303 * 0.01 / 3**0.5, 0.05 + 4.303 * 0.01 / 3**0.5), abs=1e-5
    )


@settings(max_examples=40, deadline=None)
@given(TIMES, st.floats(0.0, 50.0))
def test_it_is_the_paired_t_test_and_what_all_of_a_round_have_in_common_falls_out(
    rounds: list[tuple[float, float, float]], slower_s: float
) -> None:
    application, traced, analysed = (list(times) for times in zip(*rounds, strict=True))
    found = overhead(application, traced, analysed)
    assert found.tracing.share + found.analysis.share == pytest.approx(found.both.share, abs=1e-9)
    if max(abs(a - b - traced[0] + application[0]) for a, b in zip(traced, application, strict=True)) > 1e-6:
        assert found.tracing.p == pytest.approx(stats.ttest_rel(traced, application).pvalue, abs=1e-6)
    disturbed = [[times[0] + slower_s, *times[1:]] for times in (application, traced, analysed)]
    mean_s = sum(application) / len(application)
    again = overhead(*disturbed)
    assert again.tracing.share * (mean_s + slower_s / len(application)) == pytest.approx(
        found.tracing.share * mean_s, abs=1e-6
    )


def test_equal_times_differ_by_nothing() -> None:
    found = overhead([2.0, 2.0], [2.0, 2.0], [3.0, 3.0])
    assert (found.tracing.share, found.tracing.p) == (0.0, 1.0)
    assert (found.analysis.share, found.analysis.interval, found.analysis.p) == (0.5, (0.5, 0.5), 0.0)


TRACE = [sys.executable, "-m", "chimbuko", "trace"]
OVERHEAD = [sys.executable, "-m", "chimbuko", "overhead"]
PROGRAM = """
import sys, time
def work():
    time.sleep(0.01)
for _ in range(int(sys.argv[1])):
    work()
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


@pytest.mark.thorough
def test_all_three_kinds_run_in_each_round(program: Path) -> None:
    done = subprocess.run(
        [*OVERHEAD, "--rounds", "2", "--json", "--", *TRACE, str(program), "60"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {kind: len(times_s) for kind, times_s in found["times_s"].items()} == dict.fromkeys(
        ("application", "traced", "analysed"), 2
    )
    assert min(min(times_s) for times_s in found["times_s"].values()) >= 0.6
    assert found["rounds"] == 2
    assert done.stderr.count("round") == 9


@pytest.mark.thorough
def test_an_interruption_ends_the_program_and_leaves_nothing(program: Path, tmp_path: Path) -> None:
    before = set(Path(tempfile.gettempdir()).glob("chimbuko-overhead-*"))
    process = subprocess.Popen(
        [*OVERHEAD, "--", *TRACE, str(program), "100000"], stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    deadline = time.monotonic() + PATIENCE_S
    while not (running := _running(program)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert running
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "nothing to compare" in said
    assert not _running(program)
    assert set(Path(tempfile.gettempdir()).glob("chimbuko-overhead-*")) == before


def _running(program: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if str(program) in words and "overhead" not in words and path.parent.name != str(os.getpid()):
            found.append(path.parent.name)
    return found


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["true"], "the program is not traced: put 'chimbuko trace' before it"),
        (["sh", "-c", "echo last words >&2; exit 7"], "traced: ended with code 7: last words"),
        (["sh", "-c", "kill -9 $$"], "traced: ended with code 137"),
    ],
)
def test_what_cannot_be_compared_gets_one_line(command: list[str], said: str) -> None:
    done = CliRunner().invoke(main, ["overhead", "--rounds", "2", "--", *command])
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_rounds_are_at_least_two() -> None:
    assert CliRunner().invoke(main, ["overhead", "--rounds", "1", "--", "true"]).exit_code == 2


def printed(words: list[str], folder: Path, **variables: str) -> str:
    environment = {**os.environ, "TAU_ADIOS2_FILENAME": str(folder / "streams" / "tau"), **variables}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 3, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", ["script", "module", "native"])
def test_chimbuko_trace_runs_the_program_plainly(tmp_path: Path, kind: str) -> None:
    (tmp_path / "streams").mkdir()
    (tmp_path / "program.py").write_text(
        "import sys; print(sys.argv[1:], 'chimbuko' in sys.modules); sys.exit(3)"
    )
    words = {
        "script": ["program.py", "--rank", "two words"],
        "module": ["-m", "program", "--rank", "two words"],
        "native": ["sh", "-c", 'echo "$0 $1"; exit 3', "--rank", "two words"],
    }[kind]
    said = printed([*TRACE, "--rank", "5", *words], tmp_path, **PLAINLY)
    expected = "--rank two words\n" if kind == "native" else "['--rank', 'two words'] False\n"
    assert said == expected
    assert list((tmp_path / "streams").iterdir()) == []


@pytest.mark.parametrize(
    "options", [[], ["-T", "mpi,pthread", "-adios2_trace"], ["-ebs", "-ebs_period", "1000"], ["-v", "--"]]
)
def test_tau_exec_is_replaced_as_a_word_and_within_scripts(tmp_path: Path, options: list[str]) -> None:
    words, environment = without_tau(
        ["env", "/opt/tau/bin/tau_exec", *options], tmp_path / "plainly", {"PATH": os.environ["PATH"]}
    )
    program = ["sh", "-c", 'echo "$0 $1"; exit 3', "-T", "two words"]
    assert printed([*words, *program], tmp_path) == "-T two words\n"
    within = ["sh", "-c", 'tau_exec "$@"', "script", *options, *program]
    assert printed(within, tmp_path, **environment) == "-T two words\n"


@pytest.mark.parametrize(("value", "plain"), [("1", True), ("0", False), ("", False)])
def test_the_switch_is_off_unless_it_is_on(value: str, plain: bool) -> None:
    assert is_plain({"CHIMBUKO_PLAINLY": value}) is plain
    assert not is_plain({})
