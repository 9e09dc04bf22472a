"""Records with no more than causes need: causes find the same in them as in whole ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chimbuko.causes.evidence.flag import flag_of
from chimbuko.causes.evidence.needed import needed
from chimbuko.core.calls.record import CallRecord
from chimbuko.core.calls.recordarrays import pack
from tests.provenance.store.test_encode import EXAMPLES, HEALTH, records


@EXAMPLES
@given(st.lists(records, max_size=4))
def test_flags_and_communication_are_those_of_whole_records(made: list[CallRecord]) -> None:
    reduced = needed(pack(made), HEALTH)
    assert len(reduced) == len(made)
    for one, whole in zip(reduced, made, strict=True):
        assert flag_of(one) == flag_of(whole)
        assert (one.messages, one.collectives) == (whole.messages, whole.collectives)
        entered = {operation.call_id for operation in whole.collectives}
        assert [call for call in one.window if call.id in entered] == [
            call for call in whole.window if call.id in entered
        ]


def test_of_no_records_there_are_none() -> None:
    assert needed(pack([]), HEALTH) == []
