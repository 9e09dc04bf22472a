"""Reasons for which events of a trace do not reach its streams as they are, each counted under one."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Dropped(StrEnum):
    """Reason for which an event is left out, in words that a count follows."""

    NOT_JSON = "events that are not JSON"
    STRAY = "pieces of text between events"
    NO_PHASE = "events without a phase"
    UNKNOWN_PHASE = "events of an unknown phase"
    UNKNOWN_TYPE = "events of an unknown type"
    NO_TIME = "events without a time"
    FAR_TIME = "events whose time lies years from the others"
    LATE = "calls that came more than 30 s after they had begun, or all of a sudden"
    NEGATIVE = "calls that end before they begin"
    NOT_BEGUN = "ends of calls that had not begun"
    NO_VALUE = "counter values that are no numbers, or below 0"
    NO_ARGUMENTS = "arguments that are not JSON"
    ONE_END = "flows with one end"
    WITHIN = "flows within a process"
    UNKNOWN_PARTNER = "messages to or from unknown ranks"
    NOT_UNDERSTOOD = "packets that cannot be understood"
    NO_TRACK_EVENTS = "packets that are no track events"
    SAMPLES = "samples"
    OBJECTS = "objects"
    MEMORY_DUMPS = "memory dumps"
    CLOCKS = "clock synchronisations"
    CONTEXTS = "contexts"
    OPEN_OPERATIONS = "collective operations without an end"
    MANY_TRACKS = "threads beyond the first million, put together"
    MANY_NAMES = "names beyond the first 100,000, put together"
    MANY_LANES = "calls that overlap more than 255 others"
    INSTANTS = "instants"
    METADATA = "metadata of other kinds"
    OF_THE_PROFILER = "calls of the profiler itself"
    LAUNCH_FLOWS = "flows that correlation ids repeat"
    OTHER_RECORDS = "records that are no calls, messages or counters"


WITHOUT_LOSS: Final = frozenset(
    (
        Dropped.INSTANTS,
        Dropped.METADATA,
        Dropped.OF_THE_PROFILER,
        Dropped.LAUNCH_FLOWS,
        Dropped.OTHER_RECORDS,
    )
)
"""Reasons of events that have no duration, or say nothing that the others do not: counted, and no loss."""
