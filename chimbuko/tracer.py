"""Regions, messages and counters of a Python program; see ``chimbuko.instrument.tracer``."""

from chimbuko.instrument.tracer import (
    counter,
    is_active,
    may_record,
    metadata,
    receive,
    region,
    send,
    start,
    stop,
    traced,
    untraced,
)

__all__ = [
    "counter",
    "is_active",
    "may_record",
    "metadata",
    "receive",
    "region",
    "send",
    "start",
    "stop",
    "traced",
    "untraced",
]
