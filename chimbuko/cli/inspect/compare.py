"""``chimbuko compare``: what changed from one run to another."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import click
import msgspec

from chimbuko.cli.shared.table import MARK, Column, Output, print_json
from chimbuko.core.calls.functionnames import function_matcher, short_name, shown_names
from chimbuko.core.errors import ConfigError
from chimbuko.core.units import (
    format_change,
    format_duration_us,
    format_share,
    format_signed_us,
    format_significant,
    number_of,
    parse_duration_us,
)
from chimbuko.launcher.outcome.progress import say
from chimbuko.launcher.outcome.reach import reachable_run
from chimbuko.provenance.compare.profilemerging import merged
from chimbuko.provenance.compare.runcomparison import (
    LEAST_EFFECT,
    Comparison,
    OneSided,
    Rate,
    RunSide,
    Shift,
    compare,
)
from chimbuko.provenance.compare.runprofile import RunProfile, read_profile
from chimbuko.provenance.compare.speedup import in_all, speedups
from chimbuko.provenance.compare.speedup import interval as speedup_interval
from chimbuko.provenance.compare.timechanges import TimeChange, at_most
from chimbuko.provenance.compare.wording import (
    ELSEWHERE,
    cost_changes,
    headline,
    interval,
    reach,
    row_phrase,
    sentences,
)
from chimbuko.provenance.query.run import open_run

EXIT_SLOWER = 6
"""Exit code where ``--fail-on`` finds something that is slower; errors have smaller ones."""

MARKS = {"slower": MARK, "faster": "▼", "same": "=", "unclear": "·"}
LEAST_SHOWN = 1e-3
"""Least share of the whole time for a difference to have a row of its own."""
_PERCENT = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*%?")


@click.command("compare", short_help="Compare two runs: what is slower, new, gone, more often abnormal.")
@click.argument("runs", nargs=-1, metavar="[RUN_A RUN_B]", type=click.Path(path_type=Path))
@click.option(
    "--before",
    metavar="RUN",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A run before the change, in place of RUN_A. Repeatable, for several runs on each side.",
)
@click.option(
    "--after",
    metavar="RUN",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A run after the change, in place of RUN_B. Repeatable, for several runs on each side.",
)
@click.option(
    "--by",
    type=click.Choice(["function", "path"]),
    default="function",
    show_default=True,
    help="What each row is about.",
)
@click.option("--function", help="Name, or a pattern with * and ?; all other characters are literal.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Number of rows of each table."
)
@click.option(
    "--fail-on",
    metavar="LIMIT",
    multiple=True,
    help=f"Exit with {EXIT_SLOWER} if something takes longer by this much beyond chance: the run, all calls "
    "of a function together, one of its calls, usually or on average; or findings cost more, by as much of "
    "the time in calls: 5%. Only one of them: total:5% or total:2s, function:5% or function:2s, usual:5%, "
    "mean:5%, findings:5% or findings:2s; may be repeated.",
)
@click.option(
    "--absolute",
    is_flag=True,
    help="Do not subtract the change that all functions have in common, as on another machine.",
)
@click.option(
    "--speedup",
    is_flag=True,
    help="How many times as fast each function is in RUN_B, another variant of the program; as --absolute.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON.")
@click.pass_context
def command(
    context: click.Context,
    runs: tuple[Path, ...],
    before: tuple[Path, ...],
    after: tuple[Path, ...],
    by: Literal["function", "path"],
    function: str | None,
    limit: int,
    fail_on: tuple[str, ...],
    absolute: bool,
    speedup: bool,
    as_json: bool,
) -> None:
    """Compare RUN_B, the run after, with RUN_A, the run before: folders of two runs.

    First comes whether the run is slower or faster, by wall time, and which functions make it so: by more
    calls or fewer, longer or shorter ones, functions called once, waits. These rows add up to the difference.

    Functions are marked as slower (▲) or faster (▼) where their usual runtime, or their mean with its rare
    long calls, has changed by 5 % or more, beyond chance and the noise of the machine. The mark = means a
    change of certainly less than 5 %, and · that the runs do not decide it.

    One run on each side cannot show how much equal runs differ; of several it is measured. With
    three on each side, of a hundred comparisons of equal programs at most five name any difference.

    \b
    Examples:
      chimbuko compare chimbuko-runs/before chimbuko-runs/after
      chimbuko compare chimbuko-runs/before chimbuko-runs/after --by path --function 'MPI_*'
      chimbuko compare chimbuko-runs/main chimbuko-runs/branch --fail-on 5%
      chimbuko compare chimbuko-runs/main chimbuko-runs/branch --fail-on mean:10% --fail-on total:2s
      chimbuko compare chimbuko-runs/before chimbuko-runs/after --json | jq '.functions[0]'
      chimbuko compare --before old-1 --before old-2 --before old-3 --after a --after b --after c
      chimbuko compare chimbuko-runs/cpu chimbuko-runs/gpu --speedup
    """
    limits = _Limits.of(fail_on)
    least_effect = min(LEAST_EFFECT, limits.usual, limits.mean, limits.function, limits.total)
    first, second = (merged([_profile(path) for path in side]) for side in _sides(runs, before, after))
    found = compare(first, second, least_effect, is_net=not (absolute or speedup))
    shown = _only(found, function)
    if as_json:
        print_json(speedups(shown) if speedup else shown)
    elif speedup:
        _print_speedups(shown, by, limit)
    else:
        _print(shown, by, limit)
    if passed := limits.passed(found):
        for line in passed:
            say(f"--fail-on: {line}")
        context.exit(EXIT_SLOWER)


def _sides(
    runs: tuple[Path, ...], before: tuple[Path, ...], after: tuple[Path, ...]
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the runs before, and those after."""
    if runs and (before or after):
        raise ConfigError(f"{runs[0]}: say of each run whether it is one --before or one --after")
    if not (before or after) and len(runs) == 2:
        return runs[:1], runs[1:]
    if not (before and after):
        raise ConfigError("give RUN_A and RUN_B, or one run or several with --before, and with --after")
    for path in before + after:
        if (before + after).count(path) > 1:
            raise ConfigError(f"{path}: named more than once; a run says only once how long its calls take")
    return before, after


def _profile(path: Path) -> RunProfile:
    with open_run(reachable_run(path)) as provenance:
        return read_profile(provenance)


@dataclass(frozen=True)
class _Limits:
    """Limits that ``--fail-on`` names, each as a share of what it was."""

    usual: float = math.inf
    mean: float = math.inf
    function: float = math.inf
    """Limit of the time in all calls of a function."""
    function_us: float = math.inf
    total: float = math.inf
    total_us: float = math.inf
    findings: float = math.inf
    """Limit of the findings' cost, as a share of the time in calls."""
    findings_us: float = math.inf

    @classmethod
    def of(cls, texts: tuple[str, ...]) -> _Limits:
        limits = cls()
        for text in texts:
            what, _, value = text.strip().rpartition(":")
            if what in ("total", "function", "findings") and not _PERCENT.fullmatch(value.strip()):
                limits = replace(limits, **{f"{what}_us": parse_duration_us(value)})
            elif what in ("usual", "mean", "total", "function", "findings"):
                limits = replace(limits, **{what: _share(text, value)})
            elif not what:
                share = _share(text, value)
                limits = replace(limits, usual=share, mean=share, total=share, function=share, findings=share)
            else:
                choices = "5%, or one of usual:5%, mean:5%, total:2s, function:2s and findings:2s"
                raise ConfigError(f"--fail-on {text!r}: give {choices}")
        return limits

    def passed(self, found: Comparison) -> list[str]:
        """Return what is slower, or costs more, by so much and beyond chance; one line for each thing."""
        lines = self._slower_whole(found)
        total = found.total
        before_us = total.before_us + total.by_number_us
        if not lines and total.differs and total.by_length_us >= min(self.total_us, self.total * before_us):
            lines = [f"all calls together take {format_duration_us(total.by_length_us)} longer"]
        lines += self._slower_functions(found.times)
        for shift in found.functions:
            for change, least, which in (
                (shift.usual, self.usual, ""),
                (shift.mean, self.mean, " on average"),
            ):
                effect = change.effect or 0.0
                if change.verdict == "slower" and effect >= least:
                    by = format_share(effect, ".1f")
                    lines.append(f"{short_name(shift.name)} is slower{which} by {by}")
        least_us = min(self.findings_us, self.findings * found.before.exclusive_us)
        lines += [
            f"{change.name.lower()} cost {format_duration_us(change.added_us)} more"
            for change in cost_changes(found)
            if change.added_us >= least_us
        ]
        return lines

    def _slower_whole(self, found: Comparison) -> list[str]:
        whole = found.whole
        before_us, after_us = whole.wall_us if any(whole.wall_us) else whole.time_us
        # Without what the machine takes longer, where that can be told.
        share = min(whole.effect, whole.net) if whole.net > 0 else whole.effect
        if whole.verdict == "slower" and (share >= self.total or after_us - before_us >= self.total_us):
            line = headline(whole, found.times)
            return [line[:1].lower() + line[1:]]
        return []

    def _slower_functions(self, rows: Sequence[TimeChange]) -> list[str]:
        """Return which functions take more time in all their calls.

        New ones are no part of it: they may stand for others that are gone.
        """
        slower = [row for row in rows if row.verdict == "slower" and row.kind != "new"]
        return [
            row_phrase(row, short_name(row.name) if row.name else "")
            for row in slower
            if row.change_us >= min(self.function_us, self.function * row.time_us[0])
        ]


def _share(text: str, value: str) -> float:
    match = _PERCENT.fullmatch(value.strip())
    if match is None or not float(match[1]):
        raise ConfigError(f"--fail-on {text!r}: not a share; give one in per cent, as in 5%")
    return float(match[1]) / 100


def _only(found: Comparison, pattern: str | None) -> Comparison:
    """Functions that match alone, with their place in the source or without."""
    if pattern is None:
        return found
    matches = function_matcher(pattern)

    def is_wanted(item: Shift | OneSided) -> bool:
        return matches(item.name)

    return msgspec.structs.replace(
        found,
        functions=[shift for shift in found.functions if is_wanted(shift)],
        paths=[shift for shift in found.paths if is_wanted(shift)],
        times=[row for row in found.times if matches(row.name)],
        new=[one for one in found.new if is_wanted(one)],
        vanished=[one for one in found.vanished if is_wanted(one)],
    )


def _print(found: Comparison, by: Literal["function", "path"], limit: int) -> None:
    output = Output()
    _print_head(output, found, sentences(found))
    _print_times(output, found, limit)
    shifts = found.functions if by == "function" else found.paths
    if shifts:
        output.heading("Runtimes, time lost in all first")
        _print_shifts(output, shifts[:limit], by)
    _print_one_sided(output, found, limit)
    _print_anomalies(output, found, limit)
    _print_ranks(output, found, limit)


def _print_speedups(found: Comparison, by: Literal["function", "path"], limit: int) -> None:
    output, turned = Output(), speedups(found)
    _print_head(output, found, [in_all(found), reach(found)])
    listed = (turned.functions if by == "function" else turned.paths)[:limit]
    if listed:
        output.heading("Speed-ups, time gained in all first")
        shown = shown_names(name for one in listed for name in [*one.callers, one.name])
        rows = [
            [
                "" if one.speedup.times is None else format_significant(one.speedup.times),
                speedup_interval(one.speedup),
                "" if one.speedup.times is None else format_duration_us(one.gained_us),
                one.decided_by,
                *_durations(one.runtime_us),
                *(f"{calls:,}" for calls in one.calls),
                " → ".join(shown[name] for name in [*one.callers, one.name]),
            ]
            for one in listed
        ]
        columns = [Column("SPEED-UP", is_number=True), Column("95 %", is_number=True)]
        output.table([*columns, Column("GAINED", is_number=True), *_columns(by)], rows)
    _print_one_sided(output, found, limit)


def _print_head(output: Output, found: Comparison, said: list[str]) -> None:
    output.line(f"before  {_side(found.before)}")
    output.line(f"after   {_side(found.after)}")
    for line in said:
        output.line(line)


def _print_times(output: Output, found: Comparison, limit: int) -> None:
    large = [row for row in found.times if abs(row.change_us) >= LEAST_SHOWN * max(found.whole.time_us)]
    rows = at_most(found.times, min(limit, len(large)))
    if not large or not any(row.change_us for row in rows):
        return
    shown = shown_names(row.name for row in rows if row.name)
    output.heading("Where the difference comes from: time of all calls on all ranks, which adds up to it")
    cells = [
        [
            MARKS[row.verdict],
            format_signed_us(row.change_us),
            *(format_duration_us(us) for us in row.time_us),
            *(f"{calls:,.0f}" if row.name else "" for calls in row.calls),
            row.kind if row.name else "",
            shown.get(row.name, ELSEWHERE if row.kind == "in no known call" else "all others"),
            "waits" if row.is_waiting else "",
        ]
        for row in rows
    ]
    titles = ("DIFFERENCE", "TIME BEFORE", "TIME AFTER", "CALLS BEFORE", "CALLS AFTER")
    numbers = [Column(title, is_number=True) for title in titles]
    columns = [Column(""), *numbers, Column("BY"), Column("FUNCTION", may_shrink=True), Column("")]
    output.table(columns, cells)


def _print_one_sided(output: Output, found: Comparison, limit: int) -> None:
    for title, functions in (("New functions", found.new), ("Vanished functions", found.vanished)):
        if functions:
            output.heading(title)
            listed = functions[:limit]
            shown = shown_names(one.name for one in listed)
            output.table(
                [Column("CALLS", True), Column("TIME", True), Column("FUNCTION", may_shrink=True)],
                [[f"{one.calls:,}", format_duration_us(one.total_us), shown[one.name]] for one in listed],
            )


def _print_shifts(output: Output, shifts: list[Shift], by: Literal["function", "path"]) -> None:
    paths = [[*shift.callers, shift.name] if by == "path" else [shift.name] for shift in shifts]
    shown = shown_names(name for path in paths for name in path)
    rows = [
        [
            MARKS[change.verdict],
            "" if change.raw is None else format_change(change.raw),
            "" if change.effect is None else format_change(change.effect),
            interval(change),
            format_duration_us(change.lost_us) if change.effect is not None else "",
            shift.decided_by,
            *_durations(shift.decisive_us),
            *(f"{calls:,}" for calls in shift.calls),
            " → ".join(shown[name] for name in path),
            "waits" if shift.is_waiting else "",
        ]
        for shift, path in zip(shifts, paths, strict=True)
        for change in [shift.decisive]
    ]
    titles = ("CHANGE", "AGAINST OTHERS", "95 %", "LOST")
    numbers = [Column(title, is_number=True) for title in titles]
    output.table([Column(""), *numbers, *_columns(by), Column("")], rows)


def _columns(by: Literal["function", "path"]) -> list[Column]:
    """Return the columns of an effect: kind of runtime, both runtimes, calls of both runs, and the name."""
    numbers = [Column(title, True) for title in ("BEFORE", "AFTER", "CALLS BEFORE", "CALLS AFTER")]
    return [Column("RUNTIME"), *numbers, Column(by.upper(), may_shrink=True)]


def _durations(runtimes_us: tuple[float | None, float | None]) -> list[str]:
    return ["" if runtime_us is None else format_duration_us(runtime_us) for runtime_us in runtimes_us]


def _print_anomalies(output: Output, found: Comparison, limit: int) -> None:
    shown = shown_names(shift.name for shift in found.functions)
    rows = [
        [MARK, *(_rate(rate) for rate in shift.rates), shown[shift.name]]
        for shift in found.functions
        if shift.rates is not None and shift.has_more_anomalies
    ]
    if rows:
        output.heading("More anomalies per million calls (95 %)")
        output.table(
            [Column(""), Column("BEFORE", True), Column("AFTER", True), Column("FUNCTION", may_shrink=True)],
            rows[:limit],
        )


def _print_ranks(output: Output, found: Comparison, limit: int) -> None:
    rows = [
        [
            MARK,
            f"{rank.program}:{rank.rank}",
            *(_rate(rate) for rate in rank.rates),
            *(format_duration_us(severity_us) for severity_us in rank.severity_us),
        ]
        for rank in found.ranks
        if rank.has_more_anomalies
    ]
    if rows:
        titles = ("BEFORE", "AFTER", "LOST BEFORE", "LOST AFTER")
        output.heading("Ranks with more anomalies per million calls (95 %)")
        columns = [Column(""), Column("RANK"), *(Column(title, is_number=True) for title in titles)]
        output.table(columns, rows[:limit])


def _side(side: RunSide) -> str:
    took = format_duration_us(side.exclusive_us)
    anomalies = (
        f"{number_of(side.rate.anomalies, 'anomalies')} ({side.rate.per_million:.0f} per million calls)"
    )
    calls = f"{number_of(side.calls, 'calls')} that took {took} in all"
    runs = f"mean of {side.runs} runs: " if side.runs > 1 else ""
    return f"{side.name}: {runs}{number_of(side.ranks, 'ranks')}, {calls}, {anomalies}"


def _rate(rate: Rate) -> str:
    return f"{rate.per_million:,.0f} ({rate.low:,.0f} to {rate.high:,.0f})"
