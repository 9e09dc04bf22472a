"""``chimbuko history``: the runs of a series, and what changed from one to the next."""

from __future__ import annotations

import sys
import time

import click

from chimbuko.cli.shared.table import MARK, Column, Output, print_json
from chimbuko.core.errors import ConfigError
from chimbuko.core.names import visible
from chimbuko.core.units import format_duration_us, number_of
from chimbuko.provenance.history.history import MOST_LOOKED_AT, SeriesHistory, read_history
from chimbuko.provenance.history.index import Index, open_index, place_of_folder

EXIT_CHANGED = 6
"""Exit code of ``--fail-on-change``, as of ``chimbuko compare --fail-on``."""
BARS = "▁▂▃▄▅▆▇█"
SHOWN_RUNS = 20
RECENT = 5
"""Number of the last runs in which a change is news: so many it takes to be sure of most changes."""


@click.command(
    "history", short_help="Show what changed over the runs of a program, when, and how sure that is."
)
@click.argument("series", required=False)
@click.option(
    "--limit", type=click.IntRange(min=1), default=SHOWN_RUNS, show_default=True, help="Runs to list."
)
@click.option(
    "--last",
    type=click.IntRange(min=1),
    default=MOST_LOOKED_AT,
    show_default=True,
    help="Runs among which changes are looked for.",
)
@click.option(
    "--fail-on-change",
    is_flag=True,
    help=f"End with exit code {EXIT_CHANGED} where something is slower since one of the last {RECENT} runs.",
)
@click.option("--store", metavar="URL", help="PostgreSQL store that has the index of its runs.")
@click.option("--json", "as_json", is_flag=True, help="Print all fields as JSON.")
def command(
    series: str | None, limit: int, last: int, fail_on_change: bool, store: str | None, as_json: bool
) -> None:
    """Show the runs of SERIES, and what changed: by default the series of the newest run.

    Runs of the same program, size, input and machine form a series by themselves; 'chimbuko runs series'
    lists them. SERIES may also be a run of one. Changes are told when the runs since lie further from those
    before than the noise of the series explains; one slow run is none.

    \b
    Examples:
      chimbuko history
      chimbuko history heat2d --limit 50
      chimbuko history heat2d --fail-on-change
      chimbuko history --json | jq -r '.changes[].sentence'
    """
    place = store or place_of_folder()
    if place is None:
        raise ConfigError("CHIMBUKO_HISTORY=none: no index of runs is kept")
    with open_index(place) as index:
        found = read_history(index, _named(index, series), last)
    if as_json:
        print_json(found)
    else:
        _print(found, limit)
    news = [one for one in found.changes if _is_news(found, one.at, one.is_slower, one.reverted_at)]
    if fail_on_change and news:
        for one in news:
            print(f"chimbuko: --fail-on-change: {visible(one.sentence)}", file=sys.stderr)
        sys.exit(EXIT_CHANGED)


def _named(index: Index, wanted: str | None) -> str:
    if wanted is None:
        newest = index.newest_series()
        if newest is None:
            raise ConfigError(f"{index.place}: holds no run yet")
        return newest
    found = wanted if index.has_runs(wanted) else index.series_of(wanted)
    if found is None:
        names = [one.name for one in index.series()]
        raise ConfigError(f"series {wanted!r}: there is none; there are {', '.join(names) or 'none yet'}")
    return found


def _is_news(history: SeriesHistory, at: int, is_slower: bool, reverted_at: int | None) -> bool:
    return is_slower and reverted_at is None and at >= len(history.runs) - RECENT


def spark_line(values: list[float | None]) -> str:
    """Return a line of bars, from the least of the values to the most; blanks where one is not known."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    step = (high - low) / (len(BARS) - 1) or 1.0
    return "".join(" " if value is None else BARS[round((value - low) / step)] for value in values)


def _print(found: SeriesHistory, limit: int) -> None:
    output = Output()
    output.line(f"{found.series}: {number_of(len(found.runs), 'runs')}; {found.title}", "bold")
    by_name = {one.name: one for one in found.quantities}
    unknown: list[float | None] = [None] * len(found.runs)
    wall = by_name["wall"].values if "wall" in by_name else unknown
    first = max(0, len(found.runs) - limit)
    if any(value is not None for value in wall[first:]):
        output.line(f"wall time of the last {len(wall[first:])}: {spark_line(wall[first:])}")
    if found.changes:
        output.heading("Changes")
        for change in found.changes:
            output.line(f"{MARK if change.is_slower else '▼'} {change.sentence}")
    else:
        output.line("nothing has changed, as far as the noise of these runs allows to say")
    if found.nodes:
        output.heading("Nodes that are slow again and again")
        for node in found.nodes:
            output.line(node.sentence)
    output.heading("Runs")
    _print_runs(output, found, wall, first)


def _print_runs(output: Output, found: SeriesHistory, wall: list[float | None], first: int) -> None:
    columns = [
        Column("RUN", may_shrink=True),
        Column("STARTED"),
        Column("WALL TIME", is_number=True),
        Column("CHANGED"),
        Column("VERSION", may_shrink=True),
    ]
    at = {one.at: one for one in found.changes}
    rows = []
    for number, run in reversed(list(enumerate(found.runs))[first:]):
        change = at.get(number)
        mark = "" if change is None else MARK if change.is_slower else "▼"
        value = wall[number]
        rows.append(
            [
                run.name,
                time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started_us / 1e6)),
                "?" if value is None else format_duration_us(value),
                mark if run.is_good else f"{mark} left out".strip(),
                ", ".join(run.version),
            ]
        )
    output.table(columns, rows)
