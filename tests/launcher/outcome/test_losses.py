"""Ranks that died, and whom they ended."""

from __future__ import annotations

from chimbuko.launcher.outcome.losses import death_lines

KILLED = "died (killed, or ended without an exit) in main > MPI_Barrier()"


def test_who_called_abort_comes_first_with_those_that_it_ended() -> None:
    ended = {"0:10": KILLED, "0:2": KILLED, "0:7": "called MPI_Abort (7) in main > check"}
    assert death_lines(ended) == [
        "Died: rank 0:7 called MPI_Abort (7) in main > check; it ended rank 0:2, 0:10"
    ]


def test_of_a_crash_only_the_time_is_known() -> None:
    ended = {"0:0": KILLED, "0:1": "died (SIGSEGV) in main"}
    assert death_lines(ended) == ["Died: rank 0:1 died (SIGSEGV) in main; with it ended rank 0:0"]


def test_ranks_of_other_programs_and_those_with_two_causes_stand_for_themselves() -> None:
    other = {"1:0": KILLED, "0:1": "called MPI_Abort (1)"}
    assert death_lines(other) == ["Died: rank 0:1 called MPI_Abort (1)", f"Died: rank 1:0 {KILLED}"]
    two = {"0:0": "died (SIGSEGV)", "0:1": "died (SIGSEGV)", "0:2": KILLED}
    assert [line.partition(" died")[0] for line in death_lines(two)] == [
        f"Died: rank 0:{rank}" for rank in (0, 1, 2)
    ]


def test_of_many_only_the_first_ones_are_named() -> None:
    lines = death_lines({f"0:{rank}": KILLED for rank in range(8)})
    assert len(lines) == 6 and lines[-1] == "... and 3 further ranks died"
    cause = {f"0:{rank}": KILLED for rank in range(8)} | {"0:9": "called MPI_Abort (1)"}
    (line,) = death_lines(cause)
    assert line.endswith("it ended rank 0:0, 0:1, 0:2, 0:3, 0:4 and 3 more")
