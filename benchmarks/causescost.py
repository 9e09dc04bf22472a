"""What causes cost an agent in CPU time: what is usual of calls, messages' numbers, landmarks, who waited.

    python benchmarks/causescost.py [--rounds N] [--seconds N] [--json]

examples/heat_mpi.c runs live under our recorder with delays, and a clock around the questions to the flight
recorders says what these take of its agent. The trace that it leaves, and a made-up one with 4,096 call paths
and 128 channels of messages, are then analysed again and again by the processes of their streams, as they are
and put together without causes, in turns: no usual runtimes, no numbers, no landmarks among the records.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
from generate import SyntheticTrace, write_trace
from measuring import cost_of, in_child, table
from streams import analyse, be_fork_server, spec_of

from chimbuko.ad.agent.agent import Agent
from chimbuko.ad.agent.recorderservice import WaitSearch
from chimbuko.ad.analysis import detection, streamanalysis
from chimbuko.ad.calls.callpaths import UsualRuntimes
from chimbuko.ad.calls.channels import Channels
from chimbuko.ad.calls.selection import NO_ROWS
from chimbuko.ad.streams.process import StreamProcess
from chimbuko.capture.trace.discovery import Transport

RANKS = 4
DELAYS_PER_S = 0.75
MADE_ROWS, ROWS_PER_STEP = 2_000_000, 5_000
TURNS = 5
"""Of each stream in a round."""
BIN = Path(sys.executable).parent
SOURCE = Path(__file__).parents[1] / "examples" / "heat_mpi.c"


@dataclass
class Cost:
    """CPU-seconds of the same work in several turns."""

    without_s: list[float] = field(default_factory=list)
    with_s: list[float] = field(default_factory=list)

    @property
    def more_s(self) -> float:
        """Median of what it takes more."""
        pairs = zip(self.with_s, self.without_s, strict=True)
        return statistics.median(causes - plain for causes, plain in pairs)

    def row(self, name: str) -> tuple[str, ...]:
        """For the table."""
        more = cost_of([a / b for a, b in zip(self.with_s, self.without_s, strict=True)])
        seconds = (f"{statistics.median(values):.3f}" for values in (self.without_s, self.with_s))
        return (name, *seconds, f"{more['mean']:+.1f} %", f"{more['low']:+.1f} to {more['high']:+.1f} %")


@contextmanager
def without_causes() -> Iterator[None]:
    """An analysis that is put together without all that only causes need."""

    def not_numbered(_: Channels, step: Any, names: Any) -> Any:
        return step, np.zeros((len(step.comms), 2), np.uint32)

    with ExitStack() as patches:
        for owner, name, instead in (
            (detection, "UsualRuntimes", lambda use_inclusive: UsualRuntimes(use_inclusive, most_paths=0)),
            (UsualRuntimes, "expected_us", lambda _, calls, of_function_us: of_function_us),
            (Channels, "read", not_numbered),
            (streamanalysis, "landmarks", lambda *_: NO_ROWS),
        ):
            patches.enter_context(patch.object(owner, name, instead))
        yield


def add_turns(cost: Cost, streams: list[Path], folder: Path, turns: int) -> None:
    """Analyse all of these streams, with causes and without, first the one and then the other in turns."""
    numbers = itertools.count(len(cost.with_s) * len(streams) * 2)

    def cpu_s() -> float:
        spent_s = 0.0
        for rank, stream in enumerate(streams):
            own = folder / f"{streams[0].name}-{next(numbers)}"
            own.mkdir()
            # By another rank its process would look for names of functions that are there.
            spec = msgspec.structs.replace(spec_of(stream, Transport.RECORDED, own), rank=rank)
            spent_s += analyse(spec).cpu_s
        return spent_s

    def plain_s() -> float:
        with without_causes():
            return cpu_s()

    for turn in range(turns):
        if turn % 2:
            plain = plain_s()
            cost.with_s.append(cpu_s())
        else:
            cost.with_s.append(cpu_s())
            plain = plain_s()
        cost.without_s.append(plain)


@dataclass
class Live:
    """CPU-seconds of one live run."""

    agent_s: float
    """Of the process that has connections and threads."""
    questions_s: float
    """Of it, for who waited."""
    streams_s: float
    """Of the processes of all streams."""


def live(program: Path, seconds: int, folder: Path) -> Live:
    """Run the program under the recorder and an agent with a clock; its trace is kept."""
    spent = folder / "spent"

    def run() -> int:
        words = ["run", "--no-dashboard", "--keep-trace", "-o", str(folder / "run"), "--"]
        words += [str(BIN / "mpirun"), "-n", str(RANKS), str(BIN / "chimbuko"), "trace", str(program)]
        sys.argv = ["chimbuko", *words, "--seconds", str(seconds), "--truth", str(folder)]
        sys.argv += ["--delays", str(round(DELAYS_PER_S * seconds))]
        with open(folder / "output", "wb") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        with _clocked(spent):
            from chimbuko.cli import start

            try:
                start(lambda: None)
            except SystemExit as end:
                return int(end.code or 0)
        return 0

    if in_child(run):
        sys.exit((folder / "output").read_text(errors="replace"))
    lines = [json.loads(line) for line in spent.read_text().splitlines()]
    by_kind = {kind: sum(s for other, s in lines if other == kind) for kind, _ in lines}
    return Live(by_kind["agent"], by_kind["questions"], by_kind["stream"])


@contextmanager
def _clocked(spent: Path) -> Iterator[None]:
    """All that is forked from here on writes what it has spent."""
    questions_s = 0.0

    def say(kind: str, cpu_s: float) -> None:
        with spent.open("a") as file:
            file.write(json.dumps([kind, cpu_s]) + "\n")

    def clocked(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            nonlocal questions_s
            began_s = time.thread_time()
            try:
                return function(*arguments)
            finally:
                questions_s += time.thread_time() - began_s

        return call

    def said(function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            finally:
                say(kind, time.process_time())
                if kind == "agent":
                    say("questions", questions_s)

        return run

    with (
        patch.object(WaitSearch, "serve", clocked(WaitSearch.serve)),
        patch.object(WaitSearch, "finish", clocked(WaitSearch.finish)),
        patch.object(Agent, "run", said(Agent.run, "agent")),
        patch.object(StreamProcess, "run", said(StreamProcess.run, "stream")),
    ):
        yield


def measure(rounds: int, seconds: int) -> dict[str, Cost]:
    """All costs, by what they are of."""
    streams, made, agent, together = Cost(), Cost(), Cost(), Cost()
    with tempfile.TemporaryDirectory(prefix="chimbuko-causes-") as temporary:
        folder = Path(temporary)
        program, trace = folder / "heat_mpi", folder / "made.bp"
        flags = ["-g", "-O2", "-no-pie", "-finstrument-functions"]
        subprocess.run([BIN / "mpicc", *flags, SOURCE, "-o", program], check=True)
        write_trace(trace, SyntheticTrace(ROWS_PER_STEP), MADE_ROWS // ROWS_PER_STEP, "BP5")
        for number in range(rounds):
            own = folder / str(number)
            own.mkdir()
            found = live(program, seconds, own)
            analysed = Cost()
            add_turns(analysed, sorted((own / "run" / "trace").glob("*.bp")), own, TURNS)
            add_turns(made, [trace], own, TURNS)
            streams.with_s += analysed.with_s
            streams.without_s += analysed.without_s
            agent.with_s.append(found.agent_s)
            agent.without_s.append(found.agent_s - found.questions_s)
            together.with_s.append(found.agent_s + found.streams_s)
            together.without_s.append(together.with_s[-1] - found.questions_s - analysed.more_s)
    return {
        f"processes of {RANKS} streams": streams,
        "agent, live, with its questions": agent,
        "all of these, live": together,
        "a made-up stream": made,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=20, help="length of a live run")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    be_fork_server()
    found = measure(options.rounds, options.seconds)
    if options.json:
        print(json.dumps({name: asdict(cost) for name, cost in found.items()}, indent=2))
        return
    heads = ("CPU s of", "without causes", "with causes", "more", "95 % interval")
    print(table(heads, [cost.row(name) for name, cost in found.items()]))


if __name__ == "__main__":
    main()
