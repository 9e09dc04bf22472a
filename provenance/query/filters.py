"""Lists of calls: which ones are wanted, in what order, and what a list shows of each."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Literal, get_args

import msgspec
from sqlalchemy import ColumnElement

from chimbuko.calls.record import Label
from chimbuko.errors import ConfigError
from chimbuko.patterns import name_matcher
from chimbuko.provenance.store.tables import CALLS

Sort = Literal[
    "severity_us",
    "score",
    "entry_us",
    "exclusive_us",
    "inclusive_us",
    "step",
    "rank",
    "thread",
    "children",
    "messages_count",
]
SORTS: tuple[str, ...] = get_args(Sort)


@dataclass(frozen=True)
class CallFilter:
    """Which calls are wanted; None leaves a bound open. All bounds are inclusive."""

    label: Literal["anomaly", "normal"] | None = "anomaly"
    function: str | None = None
    """Exact name, or a pattern where it contains ``*`` or ``?``; all else is literal, and case matters."""
    program: int | None = None
    rank: int | None = None
    thread: int | None = None
    step_min: int | None = None
    step_max: int | None = None
    time_min_us: int | None = None
    """Calls whose interval from entry to exit overlaps that of the two times."""
    time_max_us: int | None = None
    min_severity_us: float | None = None
    max_severity_us: float | None = None
    min_score: float | None = None
    max_score: float | None = None
    is_open: bool | None = None
    """Whether the call has not ended yet."""
    is_gpu: bool | None = None
    """Whether it ran on a GPU."""
    node: str | None = None
    """Name of a node, or a pattern."""
    path: int | None = None
    """Number of a call path: ``CallSummary.path``, ``Total.path``."""
    through: str | None = None
    """Name of a function, or a pattern, that is somewhere on the call path: the call itself or a caller."""
    detector: str | None = None
    """The run's, or no call is wanted."""
    text: str | None = None
    """Part of the name of a function on the call path, or of the node; case does not matter."""


def matching_names(pattern: str, names: set[str]) -> set[str]:
    """Names that ``pattern`` means.

    A name that is itself known is that one alone: C++ signatures contain ``*``.
    """
    if pattern in names or not {"*", "?"} & set(pattern):
        return names & {pattern}
    return set(filter(name_matcher(pattern), names))


class CallSummary(msgspec.Struct, frozen=True):
    """The scalar fields of a ``CallRecord``, which lists and tables show."""

    id: str
    version: int
    revision: int
    is_final: bool
    label: Label
    program: int
    rank: int
    thread: int
    node: str
    function: str
    entry_us: int
    exit_us: int
    inclusive_us: int
    exclusive_us: int
    step: int
    step_start_us: int
    step_end_us: int
    score: float
    severity_us: float
    expected_us: float
    spread_us: float
    seen: int
    detector: str
    incident_id: str
    depth: int
    children: int
    messages_count: int
    left_out: int
    is_gpu: bool
    launch_id: str
    model_version: int
    launch_thread: int
    path: int
    """Number of its call path in the run; -1 where that is not known."""


class CallPage(msgspec.Struct, frozen=True):
    """A piece of a list of calls."""

    calls: list[CallSummary]
    next: str | None
    """Cursor of the piece that follows; None at the end."""


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """Where a page ended: the sort value and row number of its last call."""

    sort: str
    descending: bool
    value: float | int
    number: int

    def encode(self) -> str:
        """As text that goes into a URL unchanged."""
        return base64.urlsafe_b64encode(msgspec.msgpack.encode(self)).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str, sort: str, descending: bool) -> Cursor:
        """From text, for a list in this order.

        Raises
        ------
        ConfigError
            It is no cursor, or one of a list in another order.
        """
        try:
            packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            cursor = msgspec.msgpack.decode(packed, type=cls)
        except (ValueError, msgspec.MsgspecError):
            raise ConfigError(
                f"cursor {text!r}: not one that a list of calls ended with; leave it out"
            ) from None
        whole = (cursor.number, cursor.value if isinstance(cursor.value, int) else 0)
        if not all(-(2**63) <= number < 2**63 for number in whole):
            raise ConfigError(f"cursor {text!r}: not one that a list of calls ended with; leave it out")
        if (cursor.sort, cursor.descending) != (sort, descending):
            order = f"{cursor.sort}, {'descending' if cursor.descending else 'ascending'}"
            raise ConfigError(
                f"cursor {text!r}: belongs to a list sorted by {order}; sort the same way, or leave it out"
            )
        return cursor

    def condition(self) -> ColumnElement[bool]:
        """What follows, as a condition on the table of calls."""
        column = CALLS.c[self.sort]
        if self.descending:
            return (column <= self.value) & ((column < self.value) | (CALLS.c.id < self.number))
        return (column >= self.value) & ((column > self.value) | (CALLS.c.id > self.number))


def as_object(value: Any) -> Any:
    """Structs that travel as arrays between our processes, as JSON objects with named fields."""
    if isinstance(value, msgspec.Struct):
        return {name: as_object(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, list):
        return [as_object(item) for item in value]
    return value
