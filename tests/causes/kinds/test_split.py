"""Parts of an excess add up to it, whatever is on record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.causes.evidence.evidence import Evidence
from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.kinds.split import split
from tests.causes.flagged import flag

FUNCTIONS = st.sampled_from(["compute", "MPI_Recv()", "MPI_Ssend()", "MPI_Barrier()", "MPI_Isend()"])
TIMES = st.tuples(st.integers(0, 100), st.integers(2, 100))


@st.composite
def flags(draw: st.DrawFn) -> list[Flag]:
    made = []
    for row in range(draw(st.integers(1, 8))):
        begin, length = draw(TIMES)
        others = draw(st.lists(st.integers(0, 3), max_size=2))
        made.append(
            flag(
                draw(FUNCTIONS), draw(st.integers(0, 3)), begin, begin + length, row=row + 1,
                received_from=others, sent_to=others,
            )
        )  # fmt: skip
    return made


@given(flags())
def test_parts_add_up_to_the_excess(made: list[Flag]) -> None:
    evidence = Evidence()
    for one in made:
        evidence.put(one)
    for one in evidence.flags.values():
        parts = split(one, evidence)
        assert sum(part.lost_us for part in parts) == pytest.approx(one.excess_us)
        assert all(part.lost_us > 0 for part in parts)


def test_what_a_late_rank_does_not_cover_is_not_explained() -> None:
    evidence = Evidence()
    wait, late = flag("MPI_Recv()", 1, 0, 101, received_from=[2]), flag("compute", 2, 20, 60)
    evidence.put(wait)
    evidence.put(late)
    assert [(part.kind, part.lost_us) for part in split(wait, evidence)] == [
        ("late sender", 39_000),
        ("not explained", 61_000),
    ]
