"""Functions: their statistics over all ranks, and how their runtimes are distributed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from chimbuko.protocol.messages import FunctionStatistics
from chimbuko.provenance.query.filters import MOST, Number, Text
from chimbuko.viz.api.distribution import Distribution, distribution
from chimbuko.viz.api.endpoint import Answer, Missing, ServedRun, get
from chimbuko.viz.api.pages import PageParameters, page_of
from chimbuko.viz.api.statements import functions_statement, literal, of_program


class FunctionsAnswer(Answer, frozen=True, kw_only=True):
    """A piece of the list of functions."""

    functions: list[FunctionStatistics]
    next: str | None
    """Cursor of the piece that follows; null at the end."""
    total: int


class FunctionParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Which function."""

    name: Annotated[Text, Meta(description="The whole name of a function, as lists show it.")]
    program: Annotated[
        Number | None, Meta(description="Number of its program; the one where it lost most time by default.")
    ] = None


class FunctionAnswer(Answer, frozen=True, kw_only=True):
    """One function."""

    statistics: FunctionStatistics
    distribution: Distribution | None
    """Of its runtimes, by the newest model that was kept; null before there is one."""


def _functions_statement(_: ServedRun, wanted: PageParameters) -> str | None:
    if wanted.cursor is not None:
        return None
    order = "s.severity_us DESC, s.anomalies DESC, s.calls DESC, f.program, f.name"
    return functions_statement("", f" ORDER BY {order} LIMIT {wanted.limit}")


def _function_statement(_: ServedRun, wanted: FunctionParameters) -> str:
    return functions_statement(f" AND f.name = {literal(wanted.name)}{of_program('f', wanted.program)}")


@get("/functions", _functions_statement)
def functions(run: ServedRun, wanted: PageParameters) -> FunctionsAnswer:
    """All functions in pages, those that lost most time first."""
    rows = run.feed.worst_functions()
    page, following = page_of(rows, wanted)
    return FunctionsAnswer(functions=page, next=following, total=len(rows))


@get("/function", _function_statement)
def function(run: ServedRun, wanted: FunctionParameters) -> FunctionAnswer:
    """One function: its statistics and the distribution of its runtimes over all ranks.

    The name is an argument and no part of the path, because names of functions hold slashes.
    """
    rows = [row for row in run.feed.worst_functions() if row.name == wanted.name]
    mine = next((row for row in rows if wanted.program in (None, row.program)), None)
    if mine is None:
        place = "this run" if wanted.program is None else f"program {wanted.program} in this run"
        raise Missing(f"function {wanted.name[:200]!r}: not one of {place}")
    model = run.provenance.models.at(mine.program, mine.name, MOST)
    config = run.feed.info().config
    return FunctionAnswer(statistics=mine, distribution=distribution(model, config) if model else None)


@get("/models.ndjson")
def models(run: ServedRun) -> Iterator[Distribution]:
    """Distributions of the runtimes of all functions, one a line, by the newest models that were kept."""
    config = run.feed.info().config
    for model in run.provenance.models.newest():
        yield distribution(model, config)
