"""Table of MPI's functions: what it says and what the causes of delays know must be the same."""

from __future__ import annotations

from chimbuko.core.calls.waiting import Waits, waits_in
from chimbuko.instrument.recorder.mpitable import meanings


def recorded_as(*statements: str) -> set[str]:
    """Names of the functions before whose calls one of the statements is executed."""
    return {name for name, meaning in meanings().items() if meaning.before.startswith(statements)}


def test_what_is_recorded_as_a_collective_is_one_for_causes_and_deadlocks() -> None:
    collectives = recorded_as("collective(", "collective_of_window(")
    assert {"MPI_Cart_create", "MPI_Intercomm_merge", "MPI_Dist_graph_create", "MPI_Bcast_c"} <= collectives
    assert {name for name in collectives if waits_in(name) is not Waits.COLLECTIVE} == set()


def test_what_makes_a_communicator_or_a_window_at_once_waits_for_all() -> None:
    made = ("communicator_made", "window_made")
    at_once = {name for name, meaning in meanings().items() if meaning.after.startswith(made)}
    assert {name for name in at_once if waits_in(name) is not Waits.COLLECTIVE} == set()


def test_what_gives_a_request_ends_by_itself() -> None:
    parameters = {name: meaning.parameters for name, meaning in meanings().items()}
    begun = {name for name, names in parameters.items() if "request" in names}
    waits = {name for name in begun if waits_in(name) is not Waits.NOT}
    assert waits == {
        name for name in parameters if name.startswith(("MPI_Wait", "MPI_Test")) and name in begun
    }


def test_one_sided_synchronisation_waits_for_the_other_side_but_for_the_post() -> None:
    awaited = recorded_as("reached(SYNCHRONISATION") - {"MPI_Win_post", "MPI_Win_post_c"}
    assert {name for name in awaited if waits_in(name) not in (Waits.SEND, Waits.RECEIVE)} == set()
