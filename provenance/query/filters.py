"""Filters and lists of calls: which ones are wanted, in what order, and what a list shows of each."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta
from sqlalchemy import ColumnElement

from chimbuko.core.calls.functionnames import function_matcher
from chimbuko.core.calls.schema import SORTS, CallFields
from chimbuko.core.errors import ConfigError
from chimbuko.core.names import name_matcher
from chimbuko.provenance.store.tables import CALLS

if TYPE_CHECKING:
    Sort = str
else:
    Sort = Literal[SORTS]
"""Order of a list of calls, one of ``SORTS``."""

MOST = 2**53 - 1
"""Largest whole number that every reader of JSON keeps exact; as a time in µs it is in the year 2255."""
Whole = Annotated[int, Meta(ge=0, le=MOST)]
# Stores keep steps in 32 bits, and some more than the last one are added.
Step = Annotated[int, Meta(ge=0, le=2_000_000_000)]
Number = Annotated[int, Meta(ge=0, le=2**31 - 1)]
"""Number of a program, rank or thread."""
# PostgreSQL stores no text with a NUL, so none is searched for. Names of C++ kernels take thousands of bytes.
Text = Annotated[str, Meta(min_length=1, max_length=10_000, pattern=r"^[^\x00]*$")]


class Match(msgspec.Struct, frozen=True):
    """Comparison of a column of the table of calls with the value of a filter."""

    column: str
    how: Literal["equal", "least", "most"] = "equal"


class AnomalyFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter of abnormal calls: all that is given must apply. Bounds are inclusive.

    Each filter is defined here, once: the API's parameters and the options of the command line follow. A
    field with a ``Match`` needs nothing else; ``names`` finds out what names mean, and ``planner`` what times
    mean.
    """

    function: Annotated[
        Text | None, Meta(description="Name of a function, or a pattern with `*` and `?`.")
    ] = None
    through: Annotated[
        Text | None,
        Meta(description="Name of a function on the call path, or a pattern: the call itself or a caller."),
    ] = None
    path: Annotated[Number | None, Match("path"), Meta(description="Number of the call path.")] = None
    text: Annotated[
        Text | None,
        Meta(description="Part of the name of a function on the call path or of the node; case is ignored."),
    ] = None
    program: Annotated[
        Number | None, Match("program"), Meta(description="Number of a program of the workflow.")
    ] = None
    rank: Annotated[Number | None, Match("rank"), Meta(description="Number of a rank.")] = None
    rank_min: Annotated[
        Number | None, Match("rank", "least"), Meta(description="Number of the first of several ranks.")
    ] = None
    rank_max: Annotated[
        Number | None, Match("rank", "most"), Meta(description="Number of the last of several ranks.")
    ] = None
    thread: Annotated[Number | None, Match("thread"), Meta(description="Number of a thread of the rank.")] = (
        None
    )
    node: Annotated[Text | None, Meta(description="Name of a node, or a pattern with `*` and `?`.")] = None
    step_min: Annotated[
        Step | None, Match("step", "least"), Meta(description="First step in which calls ended.")
    ] = None
    step_max: Annotated[
        Step | None, Match("step", "most"), Meta(description="Last step in which calls ended.")
    ] = None
    time_min_us: Annotated[
        Whole | None, Meta(description="Calls under way at this time or later, µs since the epoch.")
    ] = None
    time_max_us: Annotated[
        Whole | None, Meta(description="Calls under way at this time or earlier, µs since the epoch.")
    ] = None
    min_severity_us: Annotated[
        float | None, Match("severity_us", "least"), Meta(description="Least time lost.")
    ] = None
    max_severity_us: Annotated[
        float | None, Match("severity_us", "most"), Meta(description="Most time lost.")
    ] = None
    min_score: Annotated[float | None, Match("score", "least"), Meta(description="Least score.")] = None
    max_score: Annotated[float | None, Match("score", "most"), Meta(description="Highest score.")] = None
    is_open: Annotated[
        bool | None, Match("is_open"), Meta(description="Whether the call has not ended yet.")
    ] = None
    incident: Annotated[
        Text | None, Match("incident_id"), Meta(description="Id of the incident that calls belong to.")
    ] = None
    finding: Annotated[
        Text | None,
        Meta(description="Id of the finding of what recurs that calls belong to, such as `R1`."),
    ] = None
    is_gpu: Annotated[bool | None, Match("is_gpu"), Meta(description="Whether the call ran on a GPU.")] = None
    detector: Annotated[Text | None, Meta(description="Name of the detector that judged the call.")] = None


class CallFilter(AnomalyFilter, frozen=True, kw_only=True):
    """Filter of calls, of abnormal ones unless another label is given."""

    label: Literal["anomaly", "normal"] | None = "anomaly"

    def given(self) -> dict[str, Any]:
        """Return the given fields of the filter by name, without the label."""
        usual = CallFilter()
        return {
            name: value
            for name in self.__struct_fields__
            if (value := getattr(self, name)) != getattr(usual, name)
        }


MATCHES = {
    name: match
    for name, hint in get_type_hints(AnomalyFilter, include_extras=True).items()
    for match in hint.__metadata__
    if isinstance(match, Match)
}
"""Filters that compare a column, by name."""


def matching_names(pattern: str, names: set[str]) -> set[str]:
    """Return the names that ``pattern`` matches.

    A pattern that is itself a known name matches that one alone: C++ signatures contain ``*``.
    """
    return {pattern} if pattern in names else set(filter(name_matcher(pattern), names))


def matching_functions(pattern: str, names: set[str]) -> set[str]:
    """Return the functions that ``pattern`` matches: as stored, as shown, or by the function alone.

    A pattern that is itself a stored function matches that one alone.
    """
    return {pattern} if pattern in names else set(filter(function_matcher(pattern), names))


class CallSummary(CallFields, frozen=True, kw_only=True):
    """Call as lists and tables show it."""

    path: int
    """Number of its call path in the run; -1 if that is not known."""


class CallPage(msgspec.Struct, frozen=True):
    """Page of a list of calls."""

    calls: list[CallSummary]
    next: str | None
    """Cursor of the page that follows; None at the end."""


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """Place where a page ended: sort value and row number of its last call."""

    sort: str
    descending: bool
    value: float | int
    number: int

    def encode(self) -> str:
        """Return the cursor as text that goes into a URL unchanged."""
        return base64.urlsafe_b64encode(msgspec.msgpack.encode(self)).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str, sort: str, descending: bool) -> Cursor:
        """Read a cursor from text, for a list in this order.

        Raises
        ------
        ConfigError
            The text is no cursor, or one of a list in another order.
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
        """Return what follows as a condition on the table of calls."""
        column = CALLS.c[self.sort]
        if self.descending:
            return (column <= self.value) & ((column < self.value) | (CALLS.c.id < self.number))
        return (column >= self.value) & ((column > self.value) | (CALLS.c.id > self.number))


def as_object(value: Any) -> Any:
    """Return structs, which travel as arrays between our processes, as JSON objects with named fields."""
    if isinstance(value, msgspec.Struct):
        return {name: as_object(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, list):
        return [as_object(item) for item in value]
    return value
