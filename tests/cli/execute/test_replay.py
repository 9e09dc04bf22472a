"""``chimbuko replay``: whole runs over SST or into files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chimbuko.capture.trace.discovery import find_live, read_mark_of
from tests.capture.trace.whole_streams import assert_equal, random_stream, read_stream, reading, write_stream
from tests.instrument.tracer.traced_program import environment
from tests.patience import PATIENCE_S
from tests.places import DATA

REPLAY = [sys.executable, "-m", "chimbuko", "replay"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of four recorded ranks."""
    folder = tmp_path_factory.mktemp("recorded")
    shutil.unpack_archive(DATA / "heat4.tar.xz", folder)
    return next(folder.rglob("*-0.bp")).parent


def run(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*REPLAY, *map(str, arguments)],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def test_all_ranks_over_sst_equal_their_sources(recorded: Path, tmp_path: Path) -> None:
    sources = sorted(recorded.glob("tau-metrics-*.bp"))
    assert len(sources) == 4
    targets = [tmp_path / "live" / source.name for source in sources]
    with reading(targets) as answers:
        done = run(recorded / "tau-metrics-*.bp", "--to", tmp_path / "live", "--pace", "1000")
        replayed = [answer.recv() for answer in answers]
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for source, steps in zip(sources, replayed, strict=True):
        assert_equal(steps, read_stream(source, "BPFile"))
    assert done.stdout == "replayed 4 streams, 144 steps, 353,612 rows\n"
    # Only what the readers themselves have left.
    assert sorted((tmp_path / "live").iterdir()) == [read_mark_of(target) for target in targets]


def test_pace_is_the_traces_own(tmp_path: Path) -> None:
    """Steps that end 0, 0.2 and 0.4 s after the trace's start take at least 0.4 s."""
    steps = random_stream(1, [(2, 0, 0)] * 3)
    for number, step in enumerate(steps):
        step.events[:, -1] = 1_000_000 + number * 200_000
    source = tmp_path / "tau-metrics-app-0.bp"
    write_stream(source, steps, "BP5")
    began = time.monotonic()
    done = run(source, "--to", tmp_path / "copy", "--engine", "BP5")
    assert time.monotonic() - began > 0.4
    assert done.returncode == 0
    assert_equal(read_stream(tmp_path / "copy" / source.name, "BPFile"), steps)


def test_json_says_what_was_replayed(tmp_path: Path) -> None:
    write_stream(tmp_path / "tau-metrics-app-3.bp", random_stream(1, [(2, 1, 0), (0, 0, 0)]), "BP5")
    done = run(tmp_path / "*.bp", "--to", tmp_path / "copy", "--engine", "BP4", "--pace", "max", "--json")
    (stream,) = json.loads(done.stdout)
    assert stream == {"stream": "tau-metrics-app-3.bp", "steps": 2, "rows": 3, "complaint": ""}


def test_instances_from_two_folders_get_names_of_their_own(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write_stream(tmp_path / folder / "tau-metrics-app-0.bp", random_stream(1, [(2, 1, 0)]), "BP5")
    done = run(tmp_path / "a/*.bp", tmp_path / "b/*.bp", "--to", tmp_path / "copy", "--engine", "BP5")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == [
        "tau-metrics-app-0.bp",
        "tau-metrics.1-app-0.bp",
    ]


def test_replay_goes_on_without_a_stream_that_cannot_be_opened(tmp_path: Path) -> None:
    for rank in (0, 1):
        write_stream(tmp_path / f"tau-metrics-app-{rank}.bp", random_stream(1, [(2, 1, 0)]), "BP5")
    os.truncate(tmp_path / "tau-metrics-app-1.bp" / "md.0", 0)
    done = run(tmp_path / "*.bp", "--to", tmp_path / "copy", "--engine", "BP5", "--pace", "max")
    assert done.returncode == 0
    assert done.stdout == "replayed 1 stream, 1 step, 3 rows\n"
    assert "tau-metrics-app-1.bp: not a readable BPFile trace stream" in done.stderr


def test_truncated_stream_is_said_in_one_line(tmp_path: Path) -> None:
    source = tmp_path / "tau-metrics-app-0.bp"
    write_stream(source, random_stream(2, [(400, 0, 0)] * 4), "BP5")
    os.truncate(source / "data.0", (source / "data.0").stat().st_size // 2)
    done = run(source, "--to", tmp_path / "copy", "--engine", "BP5", "--pace", "max")
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert "tau-metrics-app-0.bp: ends with a damaged step" in done.stderr
    assert done.stdout.startswith("replayed 1 stream")


def test_adios2_settings_of_the_environment_win(tmp_path: Path) -> None:
    source = tmp_path / "tau-metrics-app-0.bp"
    steps = random_stream(3, [(4, 4, 4)])
    write_stream(source, steps, "BP5")
    config = tmp_path / "adios2.xml"
    config.write_text('<adios-config><io name="TAU trace data"><engine type="BP4"/></io></adios-config>')
    done = run(source, "--to", tmp_path / "copy", "--pace", "max", TAU_ADIOS2_CONFIG_FILE=str(config))
    assert done.returncode == 0, done.stderr
    assert_equal(read_stream(tmp_path / "copy" / source.name, "BPFile"), steps)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("{here}/none*.bp", "--to", "{here}/to"), "no trace stream matches"),
        (("{here}/*.bp", "--to", "{here}"), "holds the recorded streams themselves"),
        (
            ("{here}/*.bp", "--to", "{here}/to", "--pace", "0"),
            "neither 'original', 'max' nor",
        ),
        (("{here}/*.bp", "--to", "{here}/to", "--pace", "soon"), "neither 'original', 'max' nor"),
        (("{here}/*.bp", "--to", "/proc/none"), "cannot be made"),
        (("{here}/*.bp", "--to", "{here}/busy", "--engine", "BP5"), "cannot be written"),
    ],
)
def test_users_errors_are_told(tmp_path: Path, arguments: tuple[str, ...], complaint: str) -> None:
    write_stream(tmp_path / "tau-metrics-app-0.bp", random_stream(4, [(1, 0, 0)]), "BP5")
    (tmp_path / "busy").mkdir()
    (tmp_path / "busy" / "tau-metrics-app-0.bp").touch()
    done = run(*(argument.format(here=tmp_path) for argument in arguments))
    assert done.returncode in (2, 3)
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_replay_leaves_nothing(recorded: Path, tmp_path: Path, number: signal.Signals) -> None:
    replay = subprocess.Popen(
        [*REPLAY, str(recorded / "*.bp"), "--to", str(tmp_path)], env=environment(), stderr=subprocess.PIPE
    )
    with replay:
        while len(find_live(tmp_path)) < 4:
            assert replay.poll() is None
            time.sleep(0.02)
        children = Path(f"/proc/{replay.pid}/task/{replay.pid}/children").read_text().split()
        replay.send_signal(number)
        assert replay.stderr and replay.stderr.read() == b""
    assert replay.returncode == 128 + number
    assert len(children) >= 4
    assert not any(Path(f"/proc/{child}").exists() for child in children[-4:])
    assert list(tmp_path.iterdir()) == []
