"""Measured points and descriptions of workflows, as users write them."""

from __future__ import annotations

import csv
import math
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from chimbuko.core.errors import ConfigError
from chimbuko.core.units import number_of
from chimbuko.plan.fitting import Measured, measured
from chimbuko.plan.normalform import PerformanceModel, parse_form
from chimbuko.plan.workflow import NOTHING, Phases, Task, Workflow

APPLICATION = "application"
UNITS_S = {"time_s": 1.0, "time_ms": 1e-3, "time_us": 1e-6, "time_min": 60.0}
"""Names of units that a column of times may have, with the seconds of each."""
PHASES = ("init", "final", "transfer")

Rows = list[tuple[int, dict[str, str]]]
"""Cells by column, each with the number of its line."""
_Count = Annotated[int, msgspec.Meta(ge=1)]


class ApplicationTable(msgspec.Struct, forbid_unknown_fields=True):
    """``[application]``: models as text; the step's may come from measurements."""

    step: str | None = None
    init: str | None = None
    final: str | None = None
    constants: dict[str, float] = {}


class TaskTable(msgspec.Struct, forbid_unknown_fields=True):
    """One of ``[[tasks]]``."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[\w.-]+$")]
    every: _Count = 1
    step: str | None = None
    init: str | None = None
    final: str | None = None
    transfer: str | None = None


class WorkflowTable(msgspec.Struct, forbid_unknown_fields=True):
    """A description of a workflow, in TOML."""

    steps: _Count
    parameter: str
    total: _Count
    application: ApplicationTable = msgspec.field(default_factory=ApplicationTable)
    tasks: list[TaskTable] = []
    group_sizes: list[_Count] = []
    constants: dict[str, float] = {}


def read_text(path: Path) -> str:
    """Read the text of a file of the user's.

    Raises
    ------
    ConfigError
        It cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: no text in UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error


def csv_rows(text: str, name: str) -> tuple[list[str], Rows]:
    """Return the columns and rows of a CSV; empty lines and those that begin with # are left out.

    Raises
    ------
    ConfigError
        It is none, or has a time in no unit or in several.
    """
    lines = [(at, line) for at, line in enumerate(text.splitlines(), start=1) if line.strip()]
    lines = [(at, line) for at, line in lines if not line.lstrip().startswith("#")]
    if len(lines) < 2:
        raise ConfigError(f"{name}: no rows; a CSV has a line of headings and one for each measurement")
    try:
        cells = [[cell.strip() for cell in row] for row in csv.reader(line for _, line in lines)]
    except csv.Error as error:
        raise ConfigError(f"{name}: no CSV ({error})") from error
    columns = cells[0]
    if len(set(columns)) != len(columns) or "" in columns:
        raise ConfigError(f"{name}: headings are empty or twice the same: {', '.join(columns)}")
    times = [column for column in columns if column.startswith("time")]
    if len(times) != 1 or times[0] not in UNITS_S:
        found = f"found {', '.join(times)}" if times else "found none"
        raise ConfigError(f"{name}: one column of times is needed, {_either(UNITS_S)}; {found}")
    rows: Rows = []
    for (at, _), row in zip(lines[1:], cells[1:], strict=True):
        if len(row) != len(columns):
            found, headings = number_of(len(row), "cells"), number_of(len(columns), "headings")
            raise ConfigError(f"{name}, line {at}: {found} under {headings}")
        rows.append((at, dict(zip(columns, row, strict=True))))
    return columns, rows


def number(cell: str, column: str, name: str, line: int) -> float:
    """Return a positive number in a cell.

    Raises
    ------
    ConfigError
        It is none.
    """
    try:
        value = float(cell)
    except ValueError:
        hint = "; the unit stands in the heading" if cell[:1].isdigit() else ""
        raise ConfigError(f"{name}, line {line}: {column} is {cell!r}, which is no number{hint}") from None
    if not (value > 0 and math.isfinite(value)):
        raise ConfigError(f"{name}, line {line}: {column} is {cell}; values and times are positive numbers")
    return value


def time_of(cells: Mapping[str, str], name: str, line: int) -> float:
    """Return the time in a row, in seconds."""
    (column,) = (column for column in cells if column in UNITS_S)
    return number(cells[column], column, name, line) * UNITS_S[column]


def parse_points(text: str, name: str) -> dict[str, Measured]:
    """Measurements by part: ``part`` (else all are of the application), parameters, and one column of times.

    A parameter whose cells are empty in all rows of a part is none of that part's.

    Raises
    ------
    ConfigError
        They cannot be used; it says where and why.
    """
    columns, rows = csv_rows(text, name)
    parameters = [column for column in columns if column != "part" and column not in UNITS_S]
    by_part: dict[str, Rows] = {}
    for line, cells in rows:
        by_part.setdefault(cells.get("part") or APPLICATION, []).append((line, cells))
    found = {}
    for part, own in by_part.items():
        used = [parameter for parameter in parameters if any(cells[parameter] for _, cells in own)]
        if not used:
            raise ConfigError(f"{name}: no parameter of {part}; give its value, such as ranks, in a column")
        found[part] = measured(
            part,
            [
                ({one: number(cells[one], one, name, line) for one in used}, time_of(cells, name, line))
                for line, cells in own
            ],
        )
    return found


def parse_table(text: str, name: str) -> WorkflowTable:
    """Return a workflow in TOML.

    Raises
    ------
    ConfigError
        It is none.
    """
    try:
        table = msgspec.convert(tomllib.loads(text), WorkflowTable)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: no TOML ({error})") from error
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: {error}") from error
    names = [APPLICATION, *(task.name for task in table.tasks)]
    for one in names:
        if names.count(one) > 1:
            raise ConfigError(f"{name}: two parts are called '{one}'")
    return table


def workflow_of(table: WorkflowTable, fitted: Mapping[str, PerformanceModel], name: str) -> Workflow:
    """Return a workflow whose models are those of its description, or else those fitted to measurements.

    Parameters
    ----------
    fitted
        By part: ``application``, ``TASK``, ``TASK.transfer``, and with ``.init`` and ``.final``.

    Raises
    ------
    ConfigError
        The step of a part has no model.
    """

    def model(part: str, text: str | None, is_needed: bool) -> PerformanceModel:
        if text is not None:
            return PerformanceModel(parse_form(text))
        if part in fitted:
            return fitted[part]
        if is_needed:
            raise ConfigError(f"{name}: no model of '{part}'; give its step, or points that have it as part")
        return NOTHING

    def phases(part: str, table: ApplicationTable | TaskTable) -> Phases:
        init, final = (model(f"{part}.{phase}", getattr(table, phase), False) for phase in ("init", "final"))
        return Phases(model(part, table.step, True), init, final)

    known = {APPLICATION, *(task.name for task in table.tasks)}
    for part in fitted:
        if part not in known | {f"{one}.{phase}" for one in known for phase in PHASES}:
            raise ConfigError(f"{name}: points of '{part}', which is no part of it")
    tasks = [
        Task(
            task.name,
            phases(task.name, task),
            task.every,
            model(f"{task.name}.transfer", task.transfer, False),
        )
        for task in table.tasks
    ]
    rest = (table.parameter, table.total, table.constants, table.application.constants)
    return Workflow(table.steps, phases(APPLICATION, table.application), tuple(tasks), *rest)


def parse_measured_runs(text: str, name: str) -> list[tuple[str, float]]:
    """Runs of whole workflows: how each was placed, as text, and how long it took in seconds.

    Raises
    ------
    ConfigError
        There is no column ``placement``, or a time is none.
    """
    columns, rows = csv_rows(text, name)
    if "placement" not in columns:
        raise ConfigError(f"{name}: no column 'placement'; found {', '.join(columns)}")
    return [(cells["placement"], time_of(cells, name, line)) for line, cells in rows]


def parse_choices(words: Iterable[str]) -> dict[str, list[float]]:
    """``ranks=48,96,192``: a parameter with values, as several words.

    Raises
    ------
    ConfigError
        A word is none.
    """
    found: dict[str, list[float]] = {}
    for word in words:
        name, equals, values = word.partition("=")
        try:
            found[name] = [float(value) for value in values.split(",")]
        except ValueError:
            equals = ""
        if not equals or not name.isidentifier():
            raise ConfigError(f"{word!r}: give a parameter with its values, such as ranks=48,96,192,384,768")
    return found


def _either(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}"
