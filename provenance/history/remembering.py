"""Knowledge that a run leaves to its series at its end, and takes from it at its beginning."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from chimbuko.causes.incidents.drift import Drift
from chimbuko.core.calls.functionnames import shown_name
from chimbuko.core.errors import ChimbukoError
from chimbuko.core.statistics.model import Model, save_model
from chimbuko.provenance.history.entry import (
    FUNCTION,
    LOST,
    NODES,
    PART,
    WALL,
    Details,
    Entry,
    IncidentKind,
    Version,
    at_end,
    at_start,
    day,
)
from chimbuko.provenance.history.index import Access, Index, RunRow, open_index, place_of_run
from chimbuko.provenance.history.known import KnownFinding, finding_keys, incident_key, known_findings
from chimbuko.provenance.history.priors import (
    LEAST_RUNS,
    MOST_RUNS,
    merged_prior,
    own_model,
    packed_model,
    slower_than,
)
from chimbuko.provenance.incidents.budget import Budget
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.incidents.marks import Mark, marks_of, write_mark
from chimbuko.provenance.incidents.runbudget import run_budget
from chimbuko.provenance.query.run import Provenance, open_run
from chimbuko.runtime.runs.directory import RunDirectory, RunInfo

# Entry of a run for the index, read from its store.


MOST_FUNCTIONS = 24
MOST_PACED = 12
"""Number of functions whose time on each node is kept."""
MOST_NODES = 512
"""Number of nodes that are kept of a function: the slowest of them."""
MOST_INCIDENT_KINDS = 300
MOST_LOST_STEPS = 0.05
"""Share of steps that were not analysed beyond which a run is no example for others."""


def read_entry(run: RunDirectory, info: RunInfo, provenance: Provenance) -> Entry:
    """Return the entry of a run that has ended.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    health = provenance.health()
    nodes = {(stream.program, stream.rank): stream.node for stream in health}
    programs = provenance.programs()
    series = at_end(info, list(programs.values()), len(health), len(set(nodes.values())))
    paces = _paces(provenance, nodes)
    kinds, troubles = _incidents(provenance, programs, nodes)
    seen, missed = sum(stream.steps for stream in health), sum(stream.gap_steps for stream in health)
    is_whole = seen > 0 and missed <= MOST_LOST_STEPS * (seen + missed)
    return Entry(
        id=info.id,
        name=info.name,
        folder=str(run.path),
        key=series.key,
        start_key=at_start(info).key,
        title=series.title,
        program=series.program,
        started_us=info.started_us,
        is_good=is_whole and info.state in ("finished", "imported") and not info.exit_code,
        quantities=_quantities(provenance, run_budget(provenance), paces),
        version=version_of(info),
        details=Details(kinds, paces, troubles),
        model=packed_model(own_model(provenance)),
    )


def version_of(info: RunInfo) -> Version:
    """Return the version of what ran in a run."""
    facts = info.environment
    return Version(facts.get("commit", ""), facts.get("build", ""), facts.get("LOADEDMODULES", ""))


def _quantities(
    provenance: Provenance, budget: Budget, paces: Mapping[str, Mapping[str, float]]
) -> dict[str, float]:
    parts = {f"{PART}{name}": us for name, us in msgspec.structs.asdict(budget.shares).items()}
    lost = {f"{LOST}{name}": us for name, us in msgspec.structs.asdict(budget.lost).items()}
    times: dict[str, float] = defaultdict(float)
    for (_, name), one in provenance.function_times().items():
        times[f"{FUNCTION}{shown_name(name)}"] += one.exclusive_us
    longest = sorted(times.items(), key=lambda one: (-one[1], one[0]))[:MOST_FUNCTIONS]
    quantities = {WALL: budget.wall_us, **parts, **lost, **dict(longest)}
    slowest = [max(of_nodes.values()) for of_nodes in paces.values() if len(of_nodes) > 1]
    if slowest:
        quantities[NODES] = max(slowest)
    return {name: float(f"{value:.6g}") for name, value in quantities.items()}


def _paces(provenance: Provenance, nodes: Mapping[tuple[int, int], str]) -> dict[str, dict[str, float]]:
    """Return the mean time of a call on each node, relative to the median of the nodes, of the functions with
    most time.
    """
    if len(set(nodes.values())) < 2:
        return {}
    times = provenance.times_of_ranks()
    longest = sorted(times, key=lambda key: (-sum(one.exclusive_us for one in times[key].values()), key))
    found: dict[str, dict[str, float]] = {}
    for program, name in longest[:MOST_PACED]:
        sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for rank, one in times[program, name].items():
            of_node = sums[nodes.get((program, rank), "")]
            of_node[0] += one.calls
            of_node[1] += one.exclusive_us
        means = {node: us / calls for node, (calls, us) in sums.items() if calls and us > 0.0 and node}
        if len(means) < 2:
            continue
        middle = statistics.median(means.values())
        slowest = sorted(means, key=lambda node: (-means[node], node))[:MOST_NODES]
        found[shown_name(name)] = {node: float(f"{means[node] / middle:.4g}") for node in slowest}
    return found


def _incidents(
    provenance: Provenance, programs: Mapping[int, str], nodes: Mapping[tuple[int, int], str]
) -> tuple[list[IncidentKind], dict[str, dict[str, int]]]:
    """Return incidents that are the same, the most costly first, and how many of each cause nodes had."""
    known: dict[tuple[str, str, str, int], list[float]] = defaultdict(lambda: [0.0, 0.0])
    troubles: dict[str, Counter[str]] = defaultdict(Counter)
    found = Incidents(provenance.reader)
    for details in found.each():
        one = details.summary
        key = incident_key(programs, one.program, one.function, one.kind, one.rank)
        known[key][0] += 1
        known[key][1] += one.cost_us
        node = nodes.get((one.program, -1 if one.rank is None else one.rank))
        if node:
            troubles[node][one.kind] += 1
    for again in found.recurrences():
        one_again = again.recurrence
        key = incident_key(programs, one_again.program, one_again.function, one_again.kind.value, None)
        known[key][0] += 1
        known[key][1] += one_again.cost_us
    kinds = [IncidentKind(*key, int(number), cost_us) for key, (number, cost_us) in known.items()]
    kinds.sort(key=lambda one: (-one.cost_us, one.key))
    return kinds[:MOST_INCIDENT_KINDS], {node: dict(causes) for node, causes in troubles.items()}


MOST_MARKED = 10
"""Number of earlier runs, the last ones, whose marks are carried over: each is carried on from run to run."""
MOST_EARLIER = 400
"""Number of runs of a series, the last ones, in which findings are looked up."""


class Remembered(msgspec.Struct, frozen=True):
    """A run as its series sees it."""

    known: dict[str, KnownFinding] = {}
    """Findings that earlier runs had, too, by their ids."""
    slower: list[Drift] = []
    """Functions all of whose calls take longer than in the series, those that cost most first."""


def remember(run: RunDirectory, info: RunInfo) -> Remembered:
    """Enter a run that has ended into the index that it belongs to, if any; return what its series says of
    it.

    Raises
    ------
    ChimbukoError
        The run's store cannot be read, or the index not be written.
    """
    place = place_of_run(run, info)
    if place is None:
        return Remembered()
    with open_run(run) as provenance:
        if not provenance.health():
            return Remembered()
        entry = read_entry(run, info, provenance)
        keys = finding_keys(provenance)
    with open_index(place, Access.MAKE) as index:
        index.write(entry)
        known = known_findings(keys, _earlier(index, entry))
        before = [row for row in _runs_of(index, entry) if row.started_us < entry.started_us]
        prior = _prior(index, index.series_of(entry.id) or "", info, entry.id)
    marked = {finding: key for finding, key in keys.items() if finding in known}
    carry_marks(
        run.used_store_url(info), info.id, marked, [Path(row.folder) for row in before[-MOST_MARKED:]]
    )
    return Remembered(known, [] if prior is None else slower_than(prior[1], entry.model))


def known_in_series(run: RunDirectory) -> dict[str, KnownFinding]:
    """Return which findings of a run are known, by their ids; none without an index.

    A run that goes on is not in the index yet: its series is then that of the newest run that began alike.

    Raises
    ------
    ChimbukoError
        The run's store, or the index, cannot be read.
    """
    info = run.read_info()
    place = place_of_run(run, info)
    if place is None or not _is_there(place):
        return {}
    with open_run(run) as provenance:
        keys = finding_keys(provenance)
    with open_index(place) as index:
        return known_findings(keys, _earlier(index, info))


def _is_there(place: str) -> bool:
    return "://" in place or Path(place).is_file()


def _earlier(index: Index, run: Entry | RunInfo) -> list[tuple[int, Details]]:
    """Return the earlier runs of a run's series, the oldest first."""
    rows = _runs_of(index, run)
    before = {row.id: row.started_us for row in rows if row.started_us < run.started_us}
    details = index.details(list(before))
    return [(started_us, details[one]) for one, started_us in before.items() if one in details]


def _runs_of(index: Index, run: Entry | RunInfo) -> list[RunRow]:
    series = index.series_of(run.id)
    if series is None and isinstance(run, RunInfo):
        series = index.newest_series(at_start(run).key)
    return [] if series is None else index.runs(series, MOST_EARLIER)


def carry_marks(
    url: str, run_id: str, keys: Mapping[str, tuple[str, str, str, int]], folders: Sequence[Path]
) -> None:
    """Mark findings of a run as the same were marked in earlier runs; the newest mark of each counts.

    Parameters
    ----------
    keys
        Keys of the findings that may be marked, by their ids.
    folders
        Folders of the earlier runs, the oldest first; those that are gone, or cannot be read, are left out.

    Raises
    ------
    StoreError
        The store of the run cannot be written.
    """
    marks: dict[tuple[str, str, str, int], Mark] = {}
    for folder in folders if keys else ():
        with suppress(ChimbukoError), open_run(RunDirectory(folder)) as provenance:
            if found := marks_of(provenance.reader):
                known = finding_keys(provenance)
                marks |= {known[finding]: mark for finding, mark in found.items() if finding in known}
    for finding, key in keys.items():
        if key in marks:
            write_mark(url, run_id, msgspec.structs.replace(marks[key], finding=finding))


def _prior(index: Index, series: str, info: RunInfo, but: str = "") -> tuple[list[RunRow], Model] | None:
    """Return the good runs of a series, the oldest first, and their model; None where too little is known."""
    rows = [row for row in index.runs(series, 2 * MOST_RUNS) if row.is_good and row.id != but][-MOST_RUNS:]
    if len(rows) < LEAST_RUNS:
        return None
    packed = index.models([row.id for row in rows])
    newest_first = [packed[row.id] for row in reversed(rows) if row.id in packed]
    model = merged_prior(newest_first, info.config.detector, info.config.metric)
    return None if model is None else (rows, model)


class Rebuilt(msgspec.Struct, frozen=True):
    """Result of making an index anew."""

    runs: int
    problems: list[str]
    """One line for each run that could not be read."""


def rebuild(index: Index, runs: Iterable[RunDirectory]) -> Rebuilt:
    """Enter runs into an index; those that go on are left alone, and damaged ones are named.

    What was corrected by hand stays, and so do runs that are gone.

    Raises
    ------
    StoreError
        The index cannot be written.
    """
    entered, problems = 0, []
    for run in runs:
        try:
            info = run.read_info()
            if not info.ended_us:
                continue
            with open_run(run) as provenance:
                entry = read_entry(run, info, provenance) if provenance.health() else None
        except (ChimbukoError, ValueError, KeyError) as error:
            problems.append(f"{run.path}: left out ({error})")
            continue
        if entry is not None:
            index.write(entry)
            entered += 1
    return Rebuilt(entered, problems)


class Baseline(msgspec.Struct, frozen=True):
    """Runs whose model a run begins with."""

    series: str
    runs: int
    since_us: int

    @property
    def words(self) -> str:
        """Return where the model comes from, in words."""
        return f"the last {self.runs} good runs of {self.series}, since {day(self.since_us)}"


def series_baseline(run: RunDirectory, info: RunInfo) -> Baseline | None:
    """Write the model of the series that a run begins in into its folder; None where too little is known.

    Raises
    ------
    ChimbukoError
        The index cannot be read.
    """
    place = place_of_run(run, info)
    if place is None or not _is_there(place):
        return None
    with open_index(place) as index:
        series = index.newest_series(at_start(info).key)
        found = None if series is None else _prior(index, series, info)
    if series is None or found is None:
        return None
    rows, model = found
    save_model(run.prior_path, model)
    return Baseline(series, len(rows), rows[0].started_us)
