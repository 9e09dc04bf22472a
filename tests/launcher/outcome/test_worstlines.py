"""Where the summary says that time was lost."""

from __future__ import annotations

from chimbuko.launcher.outcome.summary import worst_lines
from chimbuko.provenance.incidents.origins import Origin, OriginList


def of(*origins: Origin) -> OriginList:
    return OriginList(list(origins), len(origins), sum(one.lost_us for one in origins), 0.0)


def test_who_waited_is_not_among_the_worst() -> None:
    functions = of(
        Origin(0, None, "relax [{heat.c} {47,0}]", 2, 350e3, 0.0),
        Origin(0, None, "MPI_Waitall()", 1, 20e3, 40e3),
        Origin(0, None, "MPI_Allreduce()", 0, 0.0, 900e3),
    )
    ranks = of(Origin(0, 3, None, 3, 370e3, 0.0), Origin(0, 1, None, 0, 0.0, 940e3))
    assert worst_lines(functions, ranks, programs=1) == [
        "Worst functions, by time lost because of them:",
        "    350 ms      2×  relax",
        "   20.0 ms      1×  MPI_Waitall()",
        "Held up: 900 ms in MPI_Allreduce(), 40.0 ms in MPI_Waitall()",
        "Worst ranks, by time lost because of them:",
        "    370 ms      3×  rank 3",
    ]


def test_ranks_of_several_programs_have_both_numbers() -> None:
    worst = of(Origin(0, None, "relax", 2, 350e3, 0.0)), of(Origin(1, 3, None, 3, 370e3, 0.0))
    assert worst_lines(*worst, programs=2)[-1] == "    370 ms      3×  rank 1:3"


def test_where_nothing_is_known_to_have_begun_there_is_nothing_to_say() -> None:
    waits = of(Origin(0, None, "MPI_Recv()", 0, 0.0, 5e3))
    assert worst_lines(waits, of(), programs=1) == []
