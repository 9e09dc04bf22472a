"""Census of a run: calls that were analysed beside those that their sources saw, with each difference by its
reason. The words are those of the summary and of the page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from chimbuko.core.calls.record import StreamHealth
from chimbuko.core.sourcecensus import LEFT_OUT
from chimbuko.core.units import number_of

MOST_RANKS: Final = 100
"""Maximum number of ranks of which a census has the figures: those with the largest differences."""
LOST_EXIT: Final = "calls whose EXIT was lost"
TOO_DEEP: Final = "calls nested more than 4,096 deep"
IN_LOST_STEPS: Final = "in steps that were never read"
AT_THE_END: Final = "in steps at the end of the stream, which nobody read although the program ended in order"
IN_BAD_ROWS: Final = "in rows that could not be used"
UNEXPLAINED: Final = "on the way, for no reason that is known"
TOO_MANY: Final = "analysed beyond those that the source counted"


class Verdict(StrEnum):
    """Completeness of the calls of a run, as far as it is known."""

    COMPLETE = "complete"
    """Every source has said how many calls it saw, and so many were analysed."""
    NO_LOSS_KNOWN = "no loss known"
    """No call is known to be missing, but not every source counts its calls."""
    INCOMPLETE = "incomplete"
    UNKNOWN = "unknown"
    """Nothing is known of what the source recorded."""


class RankCensus(msgspec.Struct, frozen=True):
    """Calls of one rank."""

    stream: str
    """``program:rank``."""
    source: str
    """Recorder of the calls; empty if it does not say how many it saw."""
    seen: int | None
    """Calls that the source saw begin; None if it does not say."""
    analysed: int
    """Calls of which the analysis read the beginning."""
    unended: int
    """Calls that were analysed and had not ended when the stream ended."""
    differences: dict[str, int]
    """Number of calls that are missing, by reason."""


class Census(msgspec.Struct, frozen=True):
    """Calls of all ranks of a run."""

    verdict: Verdict
    sentence: str
    """The verdict in words, without a full stop."""
    seen: int
    """Calls that the sources of ``counted`` ranks saw."""
    analysed: int
    """Calls of all ranks of which the analysis read the beginning."""
    counted: int
    """Number of ranks whose sources say how many calls they saw."""
    uncounted: int
    left_out: int
    """Calls of functions that the sources left out on purpose, as far as counted; they are not missing."""
    differences: dict[str, int]
    """Number of calls that are missing, by reason."""
    ranks: list[RankCensus]
    """Ranks, those with the largest differences first, at most 100."""

    @property
    def missing(self) -> int:
        """Number of calls that are missing."""
        return sum(self.differences.values())


def census_of(streams: Iterable[StreamHealth]) -> Census:
    """Compare what was analysed of streams with what their sources saw."""
    known = list(streams)
    ranks = [_of_rank(stream) for stream in known]
    differences: Counter[str] = Counter()
    for rank in ranks:
        differences.update(rank.differences)
    counted = [rank for rank in ranks if rank.seen is not None]
    seen = sum(rank.seen or 0 for rank in counted)
    analysed = sum(rank.analysed for rank in ranks)
    left_out = sum(stream.source.unwritten.get(LEFT_OUT, 0) for stream in known if stream.source)
    verdict = _verdict(known, differences, len(counted))
    sentence = _sentence(verdict, differences, seen, len(ranks) - len(counted))
    if left_out and verdict in (Verdict.COMPLETE, Verdict.NO_LOSS_KNOWN):
        uncounted = sum(stream.source.uncounted for stream in known if stream.source)
        sentence += f"; {_left_out(left_out, seen, uncounted)}"
    ranks.sort(key=lambda rank: -sum(rank.differences.values()))
    return Census(
        *(verdict, sentence, seen, analysed, len(counted), len(ranks) - len(counted)),
        *(left_out, dict(differences.most_common()), ranks[:MOST_RANKS]),
    )


def _of_rank(stream: StreamHealth) -> RankCensus:
    unended = sum(stream.losses.get(kind, 0) for kind in (LOST_EXIT, TOO_DEEP))
    analysed = stream.calls + stream.open_calls + unended
    name, source = f"{stream.program}:{stream.rank}", stream.source
    if source is None:
        return RankCensus(name, "", None, analysed, stream.open_calls, {})
    unwritten = {reason: count for reason, count in source.unwritten.items() if count}
    missing = source.seen - sum(unwritten.values()) - analysed
    differences = {reason: count for reason, count in unwritten.items() if reason != LEFT_OUT}
    if missing:
        reason = _on_the_way(stream) if missing > 0 else TOO_MANY
        differences[reason] = differences.get(reason, 0) + abs(missing)
    return RankCensus(name, source.source, source.seen, analysed, stream.open_calls, differences)


def _on_the_way(stream: StreamHealth) -> str:
    if stream.state in ("broken", "lost"):
        return AT_THE_END
    if stream.gap_steps:
        return IN_LOST_STEPS
    return IN_BAD_ROWS if stream.losses else UNEXPLAINED


def _verdict(streams: list[StreamHealth], differences: Counter[str], counted: int) -> Verdict:
    if not sum(stream.rows for stream in streams):
        return Verdict.UNKNOWN
    has_lost = any(
        stream.gap_steps or stream.losses or (stream.state in ("broken", "lost") and not stream.source)
        for stream in streams
    )
    if differences or has_lost:
        return Verdict.INCOMPLETE
    return Verdict.COMPLETE if counted == len(streams) else Verdict.NO_LOSS_KNOWN


def _sentence(verdict: Verdict, differences: Counter[str], seen: int, uncounted: int) -> str:
    if verdict is Verdict.UNKNOWN:
        return "unknown, as how much was recorded is not on record"
    if verdict is Verdict.NO_LOSS_KNOWN:
        ranks = number_of(uncounted, "ranks")
        return f"no loss known, but what recorded {ranks} does not say how many calls it saw"
    if verdict is Verdict.INCOMPLETE and differences:
        return f"incomplete, {share_of(differences.total(), seen)} are missing"
    return str(verdict)


def _left_out(calls: int, seen: int, uncounted: int) -> str:
    why = "left out on purpose, as recording them would cost too much"
    if uncounted:
        functions = number_of(uncounted, "functions")
        return f"at least {number_of(calls, 'calls')} were {why}; those of {functions} are not all counted"
    return f"{share_of(calls, seen)} were {why}"


def share_of(missing: int, seen: int) -> str:
    """Return in words how many of so many calls are missing."""
    share = missing / seen if seen else 1.0
    decimals = 0 if 0.01 <= share <= 0.99 or share == 1.0 else 2
    return f"{missing:,} of {number_of(seen, 'calls')} ({100 * share:.{decimals}f} %)"
