"""Flags against the truth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from chimbuko.core.config import AnalysisConfig
from evaluation.cluster import Cluster, MakeCluster, Source
from evaluation.labelled import LabelledRun

FROM_CALL = 50
"""Of a function; calls before it do not count for recall and precision."""
CLEAR_FACTOR = 5.0
"""Of the mode's median: a delay from here on is a clear one."""


@dataclass(frozen=True)
class Score:
    """Counts of calls; scores of several runs add up."""

    calls: int = 0
    flags: int = 0
    false_flags: int = 0
    """Not delayed, of all calls."""
    judged_flags: int = 0
    """From the function's 50th call on."""
    judged_true_flags: int = 0
    """Of these, on delayed calls."""
    early_delays: int = 0
    """Before the function's 50th call."""
    early_found: int = 0
    delays: int = 0
    """From the function's 50th call on."""
    found: int = 0
    visible: int = 0
    """Delays above the function's clean 1e-5 quantile."""
    visible_found: int = 0
    clear: int = 0
    """Visible delays of at least five times the mode's median."""
    clear_found: int = 0

    def __add__(self, other: Score) -> Score:
        return Score(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def precision(self) -> float:
        """Share of delayed calls among the flagged ones."""
        return _share(self.judged_true_flags, self.judged_flags)

    @property
    def recall(self) -> float:
        """Of the delays that are longer than nearly all ordinary calls."""
        return _share(self.visible_found, self.visible)

    @property
    def clear_recall(self) -> float:
        """Of the clear ones."""
        return _share(self.clear_found, self.clear)

    @property
    def recall_of_all(self) -> float:
        """Of all delays, also those within the function's ordinary runtimes."""
        return _share(self.found, self.delays)

    @property
    def f1(self) -> float:
        """Of precision and recall of the visible delays."""
        return _harmonic(self.precision, self.recall)

    @property
    def f1_of_all(self) -> float:
        """Of precision and recall of all delays."""
        return _harmonic(self.precision, self.recall_of_all)

    @property
    def false_per_100k(self) -> float:
        """Flags on calls that were not delayed, per 100,000 calls."""
        return 1e5 * self.false_flags / self.calls


def score(run: LabelledRun, is_flagged: npt.NDArray[np.bool_]) -> Score:
    """Compare flags with the truth, call by call."""
    truth = run.truth
    is_delayed = truth.factor > 0
    is_judged = truth.number >= FROM_CALL
    is_counted = is_delayed & is_judged
    is_visible = is_counted & (truth.runtime_us > truth.quantile_us)
    is_clear = is_visible & (truth.runtime_us >= CLEAR_FACTOR * truth.median_us)
    return Score(
        calls=len(is_flagged),
        flags=_count(is_flagged),
        false_flags=_count(is_flagged & ~is_delayed),
        judged_flags=_count(is_flagged & is_judged),
        judged_true_flags=_count(is_flagged & is_counted),
        early_delays=_count(is_delayed & ~is_judged),
        early_found=_count(is_flagged & is_delayed & ~is_judged),
        delays=_count(is_counted),
        found=_count(is_flagged & is_counted),
        visible=_count(is_visible),
        visible_found=_count(is_flagged & is_visible),
        clear=_count(is_clear),
        clear_found=_count(is_flagged & is_clear),
    )


def flags_of(
    run: LabelledRun, config: AnalysisConfig, agents: int, make_cluster: MakeCluster = Cluster
) -> npt.NDArray[np.bool_]:
    """Which calls of the truth a detector flags."""
    sources = [Source(s.program, s.rank, s.names, iter(s.steps)) for s in run.streams]
    return flags_in(run, make_cluster(sources, agents, config))


def flags_in(run: LabelledRun, cluster: Cluster) -> npt.NDArray[np.bool_]:
    """Which calls of the truth were flagged."""
    is_flagged = np.zeros(len(run.truth.entry), np.bool_)
    for number, (labelled, stream) in enumerate(zip(run.streams, cluster.streams, strict=True)):
        places = stream.flagged_places()
        events = labelled.event_number(places[:, 0], places[:, 1])
        own = np.flatnonzero(run.truth.stream == number)
        call_of_event = np.full(int(events.max(initial=0)) + 1, -1)
        inside = run.truth.entry[own] < len(call_of_event)
        call_of_event[run.truth.entry[own][inside]] = own[inside]
        calls = call_of_event[events]
        is_flagged[calls[calls >= 0]] = True
    return is_flagged


def f1_of_sets(common: int, one: int, other: int) -> float:
    """F1 of two sets of flags by their sizes; 1 where both are empty."""
    return 2 * common / (one + other) if one + other else 1.0


def pooled(scores: Iterable[Score]) -> Score:
    """Of several runs."""
    return sum(scores, Score())


def _count(marks: npt.NDArray[np.bool_]) -> int:
    return int(np.count_nonzero(marks))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def _harmonic(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0
