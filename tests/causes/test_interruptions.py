"""Short delays that hit now one function and now another."""

from __future__ import annotations

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.incidentbook import IncidentBook
from chimbuko.causes.interruptions import interruptions, is_among
from tests.causes.flagged import flag

FUNCTIONS = ("pack", "unpack", "relax", "exchange")


def short(count: int, functions: tuple[str, ...] = FUNCTIONS) -> list[Flag]:
    return [
        flag(functions[n % len(functions)], n % 3, 100 * n, 100 * n + 5 + n % 3, row=n + 1)
        for n in range(count)
    ]


def test_many_short_delays_of_many_functions_are_one_finding() -> None:
    book = IncidentBook()
    book.put([*short(40), flag("checkpoint", 0, 9000, 9250), flag("compute", 1, 9500, 9600)])
    incidents = book.update().incidents
    (found,) = interruptions(incidents)
    assert (found.calls, found.longest_us, found.ranks) == (40, 8192, [0, 1, 2])
    assert set(found.functions) == set(FUNCTIONS)
    alone = [incident.function for incident in incidents if not is_among(incident, [found])]
    assert alone == ["checkpoint", "compute"]


def test_few_of_them_or_those_of_one_function_are_incidents() -> None:
    for flags in (short(12), short(40, ("relax",))):
        book = IncidentBook()
        book.put(flags)
        assert interruptions(book.update().incidents) == []


def test_a_delay_that_held_up_others_is_an_incident_however_short() -> None:
    book = IncidentBook()
    late, wait = flag("relax", 1, 9000, 9006), flag("MPI_Recv()", 0, 9001, 9007, received_from=[1])
    book.put([*short(40), late, wait])
    incidents = book.update().incidents
    found = interruptions(incidents)
    assert [one.call_id for one in incidents if not is_among(one, found)] == [late.id]
