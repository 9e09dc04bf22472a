"""What becomes of a program whose readers are killed, stopped, or late: over each transport."""

from __future__ import annotations

import heapq
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from benchmarks.transports.program import Order, Programs
from benchmarks.transports.readers import Readers, cpu_clock_s, lags_ms, steps_analysed
from benchmarks.transports.trials import (
    DISTURBANCES,
    STOPS_PER_PROGRAM,
    VARIANTS,
    Result,
    Trial,
    Variant,
    as_json,
    text,
)
from chimbuko.ad.handoff.exchange import Cell, Phase
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.capture.follow.space import MEMORY
from chimbuko.capture.trace.discovery import CONTACT_SUFFIX, STREAM_PREFIX, Transport
from chimbuko.capture.trace.shield import shield_environment, shield_states
from chimbuko.capture.trace.tausettings import transport_settings

__all__ = ["as_json", "measure", "text"]

SHARES = {"none": 0.2, "kill": 1.0, "stop": 1.0, "agent": 0.2, "late": 1.0}
"""Of the rounds."""
ROWS, PERIOD_S = 5_000, 0.05
LANES = 8
"""Programs that run at the same time, whose streams one agent reads: half of a core, all together."""
HUNG_S = 15.0
"""A program that has made no step for so long never makes one again."""
CLOSE_HUNG_S = 30.0
"""A reader that stays stopped may hold a program's end for 16 s."""
OVER_S = 30.0
"""So long may a reader take to come to the end of a stream that its program has left."""
EARLY_KILL_S, LATEST_KILL_S = 0.3, 1.5
"""Half of the kills are early: a reader joins an SST writer, and it is then that it can do harm."""
LONGEST_STOP_S, LATEST_JOIN_S, ALONE_S = 3.0, 3.0, 3.0
LAST_S = 0.5
"""How long a program goes on when it has been through all."""
LOOK_S = 0.02

Pause = Generator[float, None, None]


class Disturbed(Exception):
    """The program has died, or hangs."""


class _Lane:
    """One program after the other, each with its stream read, and that disturbed."""

    def __init__(self, bench: Bench, number: int) -> None:
        self._bench = bench
        self._number = number
        self._random = random.Random(bench.seed * 1000 + number)

    def go(self) -> Pause:
        """The whole of it; what it yields are pauses in seconds."""
        while wanted := self._bench.take_rounds():
            yield from self._one(wanted)

    def _one(self, wanted: int) -> Pause:
        bench, trial = self._bench, Trial()
        rank = next(bench.ranks)
        path = bench.folder / f"{STREAM_PREFIX}-kills-{rank}.bp"
        engine, parameters = transport_settings(bench.variant.transport)
        folder = bench.scratch / f"program-{rank}"
        order = Order(str(folder), [str(path)], engine, parameters, ROWS, PERIOD_S)
        program = bench.programs.start(order)
        self._program, self._trial = program, trial
        self._seen, self._seen_s = -1, time.monotonic()
        sst = bench.variant.transport is Transport.SST
        contact = path.with_name(path.name + CONTACT_SUFFIX) if sst else path
        stream = None
        try:
            while not contact.exists():
                yield from self._pause(LOOK_S)
            if bench.disturbance == "late":
                yield from self._pause(self._random.uniform(0.0, LATEST_JOIN_S))
            stream = bench.readers.add(path, bench.variant.transport)
            yield from self._disturb(stream, wanted)
            yield from self._close()
        except Disturbed as what:
            if str(what) == "died":
                trial.died += 1
            else:
                trial.hung += 1
                trial.hung_closing += str(what) == "hung at its end"
            bench.say(f"a program {what}")
            program.kill()
            while program.is_running:
                yield LOOK_S
        if stream is not None:
            yield from self._finish(stream)
        self._account(stream)
        bench.trials.append(trial)
        # A program that has died has not been through all.
        bench.give_back(wanted - trial.rounds)
        shutil.rmtree(folder)
        shutil.rmtree(path, ignore_errors=True)
        for left in bench.folder.glob(path.name + ".*"):
            # Files that were set aside, or what SST has left.
            shutil.rmtree(left) if left.is_dir() else left.unlink()

    def _disturb(self, stream: StreamHandle, wanted: int) -> Pause:
        disturbance = self._bench.disturbance
        if disturbance == "kill":
            for _ in range(wanted):
                yield from self._kill(stream)
        elif disturbance == "stop":
            for _ in range(wanted - 1):
                yield from self._stop(stream, self._random.uniform(0.0, LONGEST_STOP_S))
            yield from self._stop(stream, None)
            return
        elif disturbance == "agent":
            yield from self._await_reading(stream)
            self._bench.readers.abandon(stream)
            yield from self._stop(stream, None)
            return
        else:
            self._trial.rounds += wanted
        yield from self._await_reading(stream)
        yield from self._pause(ALONE_S if disturbance == "none" else LAST_S)

    def _kill(self, stream: StreamHandle) -> Pause:
        """A new process each time, at a random moment from its beginning on."""
        yield from self._await_process(stream)
        if stream.is_over:
            return
        before, victim = stream.box[Cell.HEARTBEAT], stream.pid
        latest_s = EARLY_KILL_S if self._random.random() < 0.5 else LATEST_KILL_S
        yield from self._pause(self._random.uniform(0.0, latest_s))
        if stream.pid != victim:
            return
        self._trial.rounds += 1
        self._trial.while_joining += stream.box[Cell.HEARTBEAT] == before
        _send(victim, signal.SIGKILL)
        while stream.pid == victim:
            yield from self._pause(LOOK_S)

    def _stop(self, stream: StreamHandle, seconds: float | None) -> Pause:
        """Stop the process that is there, for so long, or for ever."""
        yield from self._await_process(stream)
        yield from self._pause(self._random.uniform(0.0, 1.0))
        victim = stream.pid
        if not victim:
            return
        self._trial.rounds += 1
        self._trial.while_joining += stream.phase is Phase.OPENING
        _send(victim, signal.SIGSTOP)
        if seconds is None:
            return
        yield from self._pause(seconds)
        if stream.pid == victim:
            _send(victim, signal.SIGCONT)

    def _await_process(self, stream: StreamHandle) -> Pause:
        while not stream.pid and not stream.is_over:
            yield from self._pause(LOOK_S)

    def _await_reading(self, stream: StreamHandle) -> Pause:
        """Until the process that is there, or the next one, has read something."""
        yield from self._await_process(stream)
        before = stream.box[Cell.HEARTBEAT]
        while stream.box[Cell.HEARTBEAT] == before and not stream.is_over:
            yield from self._pause(LOOK_S)

    def _close(self) -> Pause:
        self._program.end()
        latest_s = time.monotonic() + CLOSE_HUNG_S
        while self._program.is_running:
            if time.monotonic() > latest_s:
                raise Disturbed("hung at its end")
            yield LOOK_S
        if self._program.ending() is None:
            raise Disturbed("died")

    def _finish(self, stream: StreamHandle) -> Pause:
        """Let the stream be read to its end, as when the application has ended."""
        self._bench.readers.take_back(stream)
        latest_s = time.monotonic() + OVER_S
        stream.box[Cell.IS_ALL_WRITTEN] = 1
        while not stream.is_over and time.monotonic() < latest_s:
            yield LOOK_S
        if not stream.is_over:
            self._bench.say("a stream did not come to its end")
            _send(stream.pid, signal.SIGKILL)
            stream.give_up()
            yield LOOK_S

    def _pause(self, seconds: float) -> Pause:
        """A pause in which the program has to be well."""
        end_s = time.monotonic() + seconds
        while True:
            written = self._program.steps_written()
            now_s = time.monotonic()
            if not self._program.is_running:
                raise Disturbed("died")
            if written != self._seen:
                self._seen, self._seen_s = written, now_s
            if now_s - self._seen_s > HUNG_S:
                raise Disturbed("hung")
            if now_s >= end_s:
                return
            yield min(end_s - now_s, 0.5)

    def _account(self, stream: StreamHandle | None) -> None:
        trial, steps, ending = self._trial, self._program.steps(), self._program.ending()
        trial.steps_ms = [step.wall_ms for step in steps]
        trial.written = len(steps)
        if ending is not None:
            trial.closing_ms = ending.close_ms
            trial.program_cpu_s, trial.program_cpu_steps = ending.cpu_s, len(steps)
        if stream is None:
            trial.lost = trial.written
            return
        analysed = steps_analysed(stream)
        trial.lost = len(set(range(trial.written)) - set(analysed))
        trial.unknown = len([step for step in analysed if step >= trial.written])
        trial.twice = sum(times - 1 for times in analysed.values())
        trial.joins = stream.attempts
        trial.lags_ms = list(lags_ms(stream).values())
        self._bench.readers.forget(stream)


class Bench:
    """One variant under one disturbance."""

    def __init__(
        self,
        variant: Variant,
        disturbance: str,
        rounds: int,
        lanes: int,
        seed: int,
        places: tuple[Path, Path],
    ) -> None:
        self.variant = variant
        self.disturbance = disturbance
        self.seed = seed
        self.folder, self.scratch = places
        self.trials: list[Trial] = []
        self.ranks: Iterator[int] = itertools.count()
        self._rounds = rounds
        self._lanes = lanes
        self._output = os.fdopen(os.dup(2), "w")
        self.programs: Programs
        self.readers: Readers

    @property
    def name(self) -> str:
        """What is measured."""
        return f"{self.variant.name}, {self.disturbance}"

    def take_rounds(self) -> int:
        """Rounds of the next program; 0 if there are no more."""
        most = {"kill": self.variant.kills_per_program, "stop": STOPS_PER_PROGRAM}.get(self.disturbance, 1)
        taken = min(most, self._rounds)
        self._rounds -= taken
        return taken

    def give_back(self, rounds: int) -> None:
        """These have not been gone through."""
        self._rounds += rounds

    def say(self, what: str) -> None:
        """To who waits for it; the rest of what goes to standard error is in a file."""
        print(f"{self.name}: {what}", file=self._output, flush=True)

    def run(self) -> Result:
        """All of it."""
        with (self.scratch / "log").open("wb") as log:
            os.dup2(log.fileno(), 2)
        try:
            return self._run()
        finally:
            os.dup2(self._output.fileno(), 2)
            self._output.close()

    def _run(self) -> Result:
        reports = self.scratch / "shield"
        reports.mkdir()
        environment = shield_environment(reports, os.environ) if self.variant.has_shield else None
        with Programs(environment) as self.programs, Readers(self.folder, self.scratch) as self.readers:
            self._drive()
            cpu_s, guard_s = self.readers.cpu_s, _guard_cpu_s(self.readers)
        shielded = shield_states(reports)["active"]
        return Result(self.variant.name, self.disturbance, self.trials, cpu_s, guard_s, shielded)

    def _drive(self) -> None:
        """Let the lanes go, each when its pause is over, and look after the readers meanwhile."""
        # They begin one after the other.
        now_s = time.monotonic()
        waiting = [(now_s + 0.1 * number, number, _Lane(self, number).go()) for number in range(self._lanes)]
        heapq.heapify(waiting)
        while waiting:
            rest_s = self.readers.tick()
            now_s = time.monotonic()
            while waiting and waiting[0][0] <= now_s:
                _, number, lane = heapq.heappop(waiting)
                with suppress(StopIteration):
                    heapq.heappush(waiting, (now_s + next(lane), number, lane))
            if waiting:
                time.sleep(max(min(rest_s, waiting[0][0] - time.monotonic()), 0.0))


def _guard_cpu_s(readers: Readers) -> float:
    return cpu_clock_s(readers.guard_pid)


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        if pid:
            os.kill(pid, number)


def measure(
    rounds: int,
    lanes: int = LANES,
    seed: int = 1,
    disturbances: Iterable[str] = DISTURBANCES,
    variants: tuple[Variant, ...] = VARIANTS,
) -> list[Result]:
    """All variants under all disturbances."""
    results = []
    for disturbance in disturbances:
        for variant in variants:
            with (
                tempfile.TemporaryDirectory(dir=MEMORY, prefix="chimbuko-bench-") as folder,
                tempfile.TemporaryDirectory(prefix="chimbuko-bench-") as scratch,
            ):
                places = Path(folder), Path(scratch)
                share = max(round(SHARES[disturbance] * rounds), 1)
                bench = Bench(variant, disturbance, share, lanes, seed, places)
                began_s = time.monotonic()
                results.append(bench.run())
                print(f"{bench.name}: {time.monotonic() - began_s:.0f} s", file=sys.stderr)
    return results
