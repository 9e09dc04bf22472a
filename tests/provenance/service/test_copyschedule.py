"""When the store is copied, and for whom."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from chimbuko.provenance.service.steps import Asked, Copied
from chimbuko.provenance.service.writercore import MOST_SHARE, PERIOD_S, SHARE, CopySchedule


def test_each_request_and_each_warning_is_served_once() -> None:
    schedule = CopySchedule(0.0)
    asked = Asked(1.0, b"one", False)
    assert not schedule.is_due(Asked(1.0, None, False))
    assert schedule.is_due(asked)
    schedule.copied(Copied(1.0, asked, False))
    assert schedule.is_due(asked), "the copy failed"
    schedule.copied(Copied(1.0, asked, True))
    assert not schedule.is_due(asked)
    leaving = Asked(2.0, b"one", True)
    assert schedule.is_due(leaving)
    schedule.copied(Copied(2.0, leaving, True))
    assert not schedule.is_due(leaving)
    assert schedule.is_due(Asked(2.0, b"two", True))


looks = st.lists(
    st.tuples(st.floats(0.0, 20.0), st.sampled_from([None, b"a", b"b"]), st.booleans(), st.floats(0.0, 3.0)),
    max_size=40,
)


@given(looks)
def test_copying_takes_no_more_than_its_share(
    looks: Sequence[tuple[float, bytes | None, bool, float]],
) -> None:
    now_s, schedule = 0.0, CopySchedule(0.0)
    last: Copied | None = None
    served: bytes | None = None
    for pause_s, request, is_leaving, took_s in looks:
        now_s += pause_s
        asked = Asked(now_s, request, is_leaving)
        if not schedule.is_due(asked):
            continue
        is_wanted = is_leaving or request not in (None, served)
        if last is not None:
            last_s = last.time_s - last.asked.time_s
            least_s = last_s / MOST_SHARE if is_wanted else max(PERIOD_S, last_s / SHARE)
            assert now_s - last.time_s >= least_s - 1e-9
        now_s += took_s
        last, served = Copied(now_s, asked, True), request
        schedule.copied(last)
