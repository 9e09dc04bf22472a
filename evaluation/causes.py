"""MPI programs that lose time by one known cause each, under our recorder: whether that cause is found."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chimbuko.causes.incident import Incident
from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.core.calls.functionnames import short_name
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from evaluation.tables import ResultTable

SOURCE = Path(__file__).parents[1] / "examples" / "scenarios" / "scenarios.c"
BIN = Path(sys.executable).parent
RANKS = 4
DELAYS = 5
"""Of one run."""
REPETITIONS = 5
BEGIN = "MPI_Init"
"""Function in which ranks wait for the one that was started last: how long is the machine's affair."""
LEAST_US = 50_000
"""Of the delays of 80 ms; shorter ones are the machine's."""
PERIOD_S = 0.5


Cause = tuple[tuple[str, ...], tuple[int | None, ...], str | RecurrenceKind]
"""Functions, ranks and kind."""


@dataclass(frozen=True)
class Truth:
    """What a scenario loses time by."""

    function: str
    rank: int
    kind: str | RecurrenceKind = "off its core"
    """Cause of the delays: they sleep, and no look at the node sees in what."""
    waiting: str | None = None
    """Cause of the others' waits."""
    metric: str = "exclusive"
    least_us: int = LEAST_US
    is_flagged: bool = True
    """Whether the delayed calls are abnormal themselves; else only the waits for them are."""
    period_s: float = PERIOD_S

    @property
    def delays(self) -> int:
        """Of one run; none where time is lost in each step."""
        return 0 if isinstance(self.kind, RecurrenceKind) else DELAYS

    @property
    def cause(self) -> Cause:
        """What is to be found."""
        return (self.function,), (self.rank,), self.kind


SCENARIOS = {
    "late_sender": Truth("prepare", 0, waiting="late sender"),
    "late_receiver": Truth("consume", 1, waiting="late receiver"),
    "chain": Truth("prepare", 0, waiting="late sender"),
    # Ranks are compared in windows of ten periods.
    "imbalance": Truth("integrate", 2, RecurrenceKind.SLOW_RANKS, period_s=0.1),
    "late_at_collective": Truth("assemble", 2, waiting="late at collective"),
    "late_root": Truth("read_input", 0, waiting="late at collective"),
    "late_child": Truth("newton", 1, "late child"),
    "more_calls": Truth("solve", 1, "more calls", metric="inclusive"),
    # How long 256 MB take is the machine's affair.
    "more_bytes": Truth("MPI_Send", 0, "more bytes", waiting="more bytes", least_us=20_000),
    "own_code": Truth("relax", 1),
    # Nobody flags its calls of 180 ms, but the waits for them; the flight recorder keeps no counters.
    "ordinary_call": Truth(
        "refine", 1, "own code", waiting="late at collective", least_us=100_000, is_flagged=False
    ),
}
"""By their names in ``examples/scenarios/scenarios.c``."""


@dataclass(frozen=True)
class CauseResult:
    """What the runs of one scenario are said to have lost time by."""

    scenario: str
    runs: int
    right_runs: int
    """In which the known cause is that by which most was lost, in all that has it together."""
    delays: int
    right_delays: int
    """That are incidents with the right function, rank and cause."""
    excess_us: float
    """Of all incidents."""
    not_explained_us: float

    @property
    def not_explained(self) -> float:
        """Share of the excess; undefined where nothing was lost."""
        return self.not_explained_us / self.excess_us if self.excess_us else float("nan")

    def as_json(self) -> dict[str, Any]:
        """All counts."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def build(program: Path) -> Path:
    """Compile the scenarios."""
    flags = ["-g", "-O1", "-finstrument-functions"]
    subprocess.run([BIN / "mpicc", *flags, SOURCE, "-o", program], check=True)
    return program


def command(program: Path, scenario: str, output: Path, options: Sequence[str] = ()) -> list[str | Path]:
    """What runs a scenario; ``options`` are further ones of ``chimbuko run``.

    Nothing is said of the node: of a machine that is busy otherwise it would be the cause, rightly.
    """
    truth = SCENARIOS[scenario]
    analysis = ["--no-dashboard", "--no-node-samples", "--period", str(truth.period_s)]
    analysis += ["--metric", truth.metric, *options]
    traced = [BIN / "mpirun", "-n", str(RANKS), BIN / "chimbuko", "trace", program, scenario]
    return [BIN / "chimbuko", "run", *analysis, "-o", output, "--", *traced]


def run(program: Path, scenario: str, output: Path, options: Sequence[str] = ()) -> RunDirectory:
    """One run of a scenario, as ``command`` says it."""
    subprocess.run(command(program, scenario, output, options), check=True, timeout=170, capture_output=True)
    return RunDirectory(output)


def incidents_of(run: RunDirectory) -> list[Incident]:
    """All of a run, the most costly first; short ones, too."""
    with open_run(run) as provenance:
        found = [one.incident for one in Incidents(provenance.reader).each()]
    return sorted(found, key=lambda one: -one.cost_us)


def delays_of(incidents: Iterable[Incident], truth: Truth) -> list[Incident]:
    """Those that are long enough to be delays of the program, and none of the machine."""
    return [one for one in incidents if one.call_id and one.excess_us >= truth.least_us]


def cause_of(found: Incident | Recurrence) -> Cause:
    """By what time was lost, as it is said."""
    if isinstance(found, Incident):
        return (short_name(found.function),), (found.rank,), found.kind
    return tuple(map(short_name, found.functions)), tuple(found.ranks), found.kind


def judge(run: RunDirectory, scenario: str) -> CauseResult:
    """One run against the truth."""
    truth, incidents = SCENARIOS[scenario], incidents_of(run)
    with open_run(run) as provenance:
        every = [one.recurrence for one in Incidents(provenance.reader).recurrences()]
        recurring = [one for one in every if short_name(one.function) != BEGIN]
    cost_us: Counter[Cause] = Counter()
    found: list[Incident | Recurrence] = [*incidents, *recurring]
    for one in found:
        cost_us[cause_of(one)] += round(one.cost_us)
    lost = [loss for one in incidents for loss in losses(one)]
    return CauseResult(
        scenario,
        runs=1,
        right_runs=int([cause for cause, _ in cost_us.most_common(1)] == [truth.cause]),
        delays=truth.delays,
        right_delays=sum(cause_of(one) == truth.cause for one in delays_of(incidents, truth)),
        excess_us=sum(lost_us for _, lost_us in lost),
        not_explained_us=sum(lost_us for kind, lost_us in lost if kind == "not explained"),
    )


def losses(incident: Incident) -> Iterator[tuple[str, float]]:
    """What was lost by which cause: the origin's excess by its parts, that of others by its main one."""
    if incident.call_id:
        yield from ((part.kind, part.lost_us) for part in incident.parts)
    yield from ((one.kind, one.lost_us) for one in incident.waited)


def measure(scenarios: Iterable[str] = SCENARIOS, repetitions: int = REPETITIONS) -> Iterator[CauseResult]:
    """Run each scenario several times, one run after the other."""
    with tempfile.TemporaryDirectory(prefix="chimbuko-causes-") as temporary:
        program = build(Path(temporary) / "scenarios")
        for scenario in scenarios:
            outputs = [Path(temporary) / f"{scenario}-{number}" for number in range(repetitions)]
            yield _together([judge(run(program, scenario, output), scenario) for output in outputs])


def _together(results: Sequence[CauseResult]) -> CauseResult:
    """Sums over the runs of one scenario."""
    counts = [name for name in CauseResult.__dataclass_fields__ if name != "scenario"]
    sums = {name: sum(getattr(one, name) for one in results) for name in counts}
    return replace(results[0], **sums)


def table(results: Iterable[CauseResult]) -> ResultTable:
    """One row per scenario."""
    columns = ("scenario", "top cause right", "delays with the right cause", "excess that is not explained")
    rows = [
        (
            one.scenario,
            f"{one.right_runs}/{one.runs}",
            f"{one.right_delays}/{one.delays}" if one.delays else "-",
            f"{one.not_explained:.1%}" if one.excess_us else "-",
        )
        for one in results
    ]
    return ResultTable("Known causes", columns, rows)
