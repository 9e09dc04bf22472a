"""Recorded calls with no more of each than causes of delays are found by: that takes a third of the time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Rows
from chimbuko.core.calls.record import FIRST_STRETCH_ROW, CallRecord, StreamHealth
from chimbuko.core.calls.recordarrays import COLLECTIVE, PackedRecords, unpack


def needed(records: PackedRecords, health: StreamHealth) -> Sequence[CallRecord]:
    """Return records as values: of their windows the calls that each made, those that entered collective
    operations, and what lies around a stretch.
    """
    if not records.count:
        return []
    heads = records.head_rows().copy()
    members, messages = records.rows("members"), records.rows("messages")
    of_record = np.repeat(np.arange(len(heads)), heads.members)
    around = heads[of_record]
    is_in_step = members["parent_step"] == around["begin_step"]
    is_child = is_in_step & (members["parent_row"] == around["begin_row"])
    has_entered = np.isin(_places(members), _places(messages[messages["kind"] == COLLECTIVE]))
    kept = is_child | has_entered | (around["begin_row"] <= FIRST_STRETCH_ROW)
    heads["members"] = np.bincount(of_record[kept], minlength=len(heads))
    heads["node_state"] = heads["launch_frames"] = 0
    reduced = msgspec.structs.replace(
        records, heads=heads.tobytes(), members=members[kept].tobytes(), node_state=b"", launch_frames=b""
    )
    return unpack(reduced, health, "")


def _places(rows: Rows) -> npt.NDArray[np.int64]:
    """Return a number for the call that each row is, or belongs to."""
    places: npt.NDArray[np.int64] = (rows["step"].astype(np.int64) << 32) | rows["row"]
    return places
