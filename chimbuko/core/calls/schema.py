"""Fields of a recorded call. Each is defined here, once, with its type, its meaning and where it occurs.

From it follow: the arrays in which records are made (``recordarrays.HEAD``), the columns and indexes of the
store's table of calls and their description for users of SQL, the orders of lists, the columns of DataFrames
and Parquet files, and, by the API's document, the types of the page. What does not follow, such as the places
where records are made, CONTRIBUTING.md lists. Names carry their units.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, get_type_hints

import msgspec


class Label(StrEnum):
    """Judgement of the detector about a call."""

    ANOMALY = "anomaly"
    NORMAL = "normal"


class Field(msgspec.Struct, frozen=True):
    """Properties of a field beside its name and its type in Python."""

    meaning: str
    """Meaning of the field, for users of SQL; without a full stop."""
    dtype: str = ""
    """NumPy's name of the field's type in arrays and, as far as it is stored, of its column; empty for texts.
    """
    is_in_arrays: bool = True
    """Whether records are made with it; other fields follow from the stream, the run, or other fields."""
    is_stored: bool = True
    """Whether the table of calls has it as a column."""
    is_sortable: bool = False
    """Whether lists of calls can be sorted by it."""
    is_indexed: bool = False
    """Whether an index has the calls in its order, so that a page of a million calls takes milliseconds."""


_TIME = "in µs since 1970 on the trace's clock"


class CallFields(msgspec.Struct, frozen=True):
    """The scalar fields of a recorded call, as lists, records and answers have them.

    All times are µs since the Unix epoch on the trace's clock. The names follow Chimbuko's version-2 record.
    """

    id: Annotated[str, Field("The call's id: program:rank:begin_step:begin_row")]
    version: Annotated[int, Field("Version of the record's form")]
    revision: Annotated[int, Field("How often it was sent again; 0 while the call is open", "u1")]
    is_final: Annotated[bool, Field("Whether its window is complete", "?")]
    label: Annotated[Label, Field("What the detector said")]
    program: Annotated[int, Field("The program's number in the run", "i4", is_in_arrays=False)]
    rank: Annotated[
        int,
        Field("MPI rank, or number of the instance of a program without MPI", "i4", False, is_sortable=True),
    ]
    thread: Annotated[int, Field("Thread of the rank", "i4", is_sortable=True)]
    node: Annotated[str, Field("Name of the compute node")]
    function: Annotated[str, Field("The function's number in the run (functions.number)", "i4")]
    entry_us: Annotated[int, Field(f"When it was entered, {_TIME}", "u8", is_sortable=True, is_indexed=True)]
    exit_us: Annotated[int, Field(f"When it ended, {_TIME}; 0 while it is open", "u8", is_stored=False)]
    inclusive_us: Annotated[
        int,
        Field(
            "Runtime in µs, with the calls inside it; so far, of an open call",
            "u8",
            is_sortable=True,
            is_indexed=True,
        ),
    ]
    exclusive_us: Annotated[
        int,
        Field("Runtime in µs, without the calls inside it", "u8", is_sortable=True, is_indexed=True),
    ]
    step: Annotated[int, Field("Step in which it ended", "i4", is_sortable=True, is_indexed=True)]
    step_start_us: Annotated[int, Field(f"First event of that step, {_TIME}", "u8", is_stored=False)]
    step_end_us: Annotated[int, Field(f"Last event of that step, {_TIME}", "u8", is_stored=False)]
    score: Annotated[
        float,
        Field(
            "How far from ordinary it is; comparable within one detector",
            "f8",
            is_sortable=True,
            is_indexed=True,
        ),
    ]
    severity_us: Annotated[
        float,
        Field("Time lost against what was expected, in µs", "f8", is_sortable=True, is_indexed=True),
    ]
    expected_us: Annotated[float, Field("Runtime that was expected of it, in µs", "f8")]
    spread_us: Annotated[float, Field("Standard deviation of the function's runtime then, in µs", "f8")]
    seen: Annotated[int, Field("Calls of the function that were known then", "i8")]
    detector: Annotated[str, Field("Name of the detector that judged it")]
    incident_id: Annotated[str, Field("Id of the incident that it belongs to; empty while it is in none")]
    depth: Annotated[int, Field("Calls that were open around it", "i4")]
    children: Annotated[int, Field("Calls that it made itself", "i4", is_sortable=True)]
    messages_count: Annotated[int, Field("Messages that it sent and received itself", "i4", is_sortable=True)]
    left_out: Annotated[int, Field("Messages and counters of its window that were not kept", "i4")]
    is_gpu: Annotated[bool, Field("Whether it ran on a GPU", "?")]
    launch_id: Annotated[str, Field("Id of the call that launched it on the GPU; empty without one")]
    model_version: Annotated[int, Field("Version of the global model that judged it", "i8")]
    launch_thread: Annotated[
        int,
        Field("Thread of the call that launched it on the GPU; -1 if it is not known", "i4"),
    ] = -1
    is_relabelled: Annotated[
        bool,
        Field(
            "Whether the final judgement changed its label: while the run went on the other was said",
            "?",
            False,
        ),
    ] = False


class KeyFields(msgspec.Struct, frozen=True):
    """Fields that arrays and the store hold in place of ids, labels and times of exit."""

    begin_step: Annotated[int, Field("Step in which the call began", "i4")]
    begin_row: Annotated[int, Field("Row of its ENTRY in that step", "i4")]
    is_anomaly: Annotated[bool, Field("Whether it is abnormal; the others are for comparison", "?")]
    is_open: Annotated[bool, Field("Whether it had not ended when it was last reported", "?", False)]
    launch_step: Annotated[
        int, Field("Of the call that launched it on the GPU, as begin_step; -1 without one", "i4")
    ]
    launch_row: Annotated[int, Field("Of the call that launched it on the GPU, as begin_row", "i4")]
    path: Annotated[
        int,
        Field(
            "The call path's number in the run (paths.number); -1 if it is not known",
            *("i4", False),
        ),
    ]


def _fields_of(kind: type[msgspec.Struct]) -> dict[str, Field]:
    return {
        name: next(one for one in hint.__metadata__ if isinstance(one, Field))
        for name, hint in get_type_hints(kind, include_extras=True).items()
    }


FIELDS = _fields_of(CallFields)
"""Scalar fields of a call by name."""
NUMBERS = {name: field for name, field in (FIELDS | _fields_of(KeyFields)).items() if field.dtype}
"""Fields that arrays or the store hold, as numbers."""
STORED = {name: field for name, field in NUMBERS.items() if field.is_stored}
"""Fields that are columns of the store's table of calls."""
IN_ARRAYS = {name: field for name, field in NUMBERS.items() if field.is_in_arrays}
"""Fields that records are made with."""
SORTS = tuple(name for name, field in FIELDS.items() if field.is_sortable)
"""Fields by which lists of calls can be sorted."""
INDEXED = tuple(name for name, field in FIELDS.items() if field.is_indexed)
"""Fields by which lists of calls are sorted fast, by an index."""
