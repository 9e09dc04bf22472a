"""The main job, over both transports: a recorded MPI program replayed live over SST, then an MPI program in C
under our own recorder, live through files in this node's memory, as is the default.

Both have delays of known place and size. The demo says which of them were found.

    python examples/demo.py [--folder DIR] [--pace N] [--seed N]
"""

from __future__ import annotations

import argparse
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from findings import all_anomalies
from truth import match, read_truth

from chimbuko.capture.trace.discovery import find_recorded
from chimbuko.capture.trace.recordedstreams import note_recorded
from chimbuko.core.units import format_duration_us
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RUNS_FOLDER, RunDirectory

HERE = Path(__file__).resolve().parent
MPI = Path(sys.executable).parent
"""Folder of the commands of the mpich wheel."""
RECORDED = HERE.parent / "tests" / "data" / "heat4.tar.xz"
LIVE_DELAYS = 12
LIVE_SECONDS = 25
LIVE_RANKS = 2


def main() -> int:
    """Run both parts; 0 if both programs ended well."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    started = time.strftime("%Y%m%d-%H%M%S")
    parser.add_argument(
        "--folder", type=Path, default=RUNS_FOLDER, help="of the runs; they are found in its default alone"
    )
    parser.add_argument("--pace", default="2", help="of the replay: times as fast as it was recorded")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="of the live delays")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chimbuko-demo-") as scratch:
        first = recorded_part(options.folder / f"{started}-demo-recorded", options.pace, Path(scratch))
        live = options.folder / f"{started}-demo-live"
        program = compiled(options.folder.absolute() / "demo-program" / "heat_mpi")
        second = live_part(live, program, options.seed, Path(scratch))
    say(f"Look at both: {shlex.join([str(MPI / 'chimbuko'), 'view', str(options.folder)])}")
    return first or second


def recorded_part(folder: Path, pace: str, scratch: Path) -> int:
    """A 2-D heat equation in C on 4 MPI ranks, recorded with TAU, with 41 delays of 8 to 250 ms."""
    say("1 of 2, over SST: a recorded TAU trace of an MPI program, replayed live")
    shutil.unpack_archive(RECORDED, scratch)
    recorded = scratch / "heat4"
    replay = ["--replay", str(recorded / "*.bp"), "--pace", pace, "--transport", "sst"]
    code = chimbuko("run", *replay, "--output", str(folder))
    keep_trace(recorded, RunDirectory(folder.absolute()))
    report(folder, sorted(recorded.glob("truth*.txt")))
    return code


def keep_trace(recorded: Path, run: RunDirectory) -> None:
    """Move what was replayed into the run's folder: so all of its calls are on the timeline."""
    for stream in recorded.glob("*.bp"):
        shutil.move(stream, run.trace)
    note_recorded(run, find_recorded([str(run.trace / "*.bp")]))


def compiled(program: Path) -> Path:
    """The example in C, compiled once. It stays: timelines look up names of functions in it."""
    source = HERE / "heat_mpi.c"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        program.parent.mkdir(parents=True, exist_ok=True)
        flags = ["-O2", "-g", "-finstrument-functions"]
        subprocess.run([str(MPI / "mpicc"), *flags, str(source), "-o", str(program)], check=True)
    return program


def live_part(folder: Path, program: Path, seed: int, scratch: Path) -> int:
    """The heat equation in C on MPI ranks, under our own recorder; MPI is that of the mpich wheel."""
    say(f"2 of 2, through files: an MPI program in C, recorded live; delays by seed {seed}")
    traced = [sys.executable, "-m", "chimbuko", "trace", str(program), "--seed", str(seed)]
    traced += ["--delays", str(LIVE_DELAYS), "--seconds", str(LIVE_SECONDS), "--truth", str(scratch)]
    launch = [str(MPI / "mpirun"), "-n", str(LIVE_RANKS)]
    code = chimbuko(
        "run", "--transport", "files", "--keep-trace", "--output", str(folder), "--", *launch, *traced
    )
    report(folder, sorted(scratch.glob("truth-*.txt")))
    return code


def chimbuko(*arguments: str) -> int:
    """Run the command line, its output on our terminal."""
    return subprocess.run([sys.executable, "-m", "chimbuko", *arguments], check=False).returncode


def report(folder: Path, truth: list[Path]) -> None:
    """Say for each delay whether it was found, and as which call."""
    with open_run(RunDirectory(folder.absolute())) as provenance:
        matched = match(read_truth(truth), all_anomalies(provenance))
    found = sum(call is not None for _, call in matched)
    print(f"\n{found} of {len(matched)} injected delays found:")
    for delay, call in matched:
        place = f"rank {delay.rank} iteration {delay.index:<5} {delay.function:<14} +{delay.milliseconds} ms"
        if call is None:
            print(f"    missed  {place}")
        else:
            lost = format_duration_us(call.severity_us)
            print(f"  ▲ found   {place:<52} {lost:>8} lost   chimbuko show {call.id} {folder}")
    print(flush=True)


def say(text: str) -> None:
    """A heading."""
    print(f"\n{text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
