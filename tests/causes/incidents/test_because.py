"""What calls that recur lost their time by."""

from __future__ import annotations

import msgspec
import pytest

from chimbuko.causes.incidents.interruptions import because, lost_by
from chimbuko.causes.incidents.sentence import recurrence_sentence
from chimbuko.causes.kinds.registry import IN_NODE
from chimbuko.causes.part import Part
from chimbuko.causes.recurrence import Recurrence, RecurrenceKind

FOUND = Recurrence(0, RecurrenceKind.INTERRUPTIONS, "", 40, 4e5, 5e3, 8e3, ["a", "b", "c"], [1, 3], 0, 9, [])
BY_SPINNER = Part("waited for core", 6e3, by="spinner (root, process 4711)", is_foreign=True, core=1)
OWN, WAITED = Part("own code", 5e3), Part("waited for core", 5e3, by="rank 2", core=0)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([BY_SPINNER, OWN], "on ranks 1 and 3, as spinner (root, process 4711) took their cores: "),
        ([BY_SPINNER, WAITED], "on ranks 1 and 3, as spinner (root, process 4711) took their cores: "),
        ([BY_SPINNER, WAITED, WAITED], "on ranks 1 and 3, as they waited for their cores: "),
        ([OWN, OWN, WAITED], "on ranks 1 and 3: "),
        ([], "on ranks 1 and 3: "),
    ],
    ids=["a process of others", "mostly", "also each other", "by themselves", "nothing is known"],
)
def test_the_cause_of_most_of_it_is_said(parts: list[Part], words: str) -> None:
    assert words in recurrence_sentence(because(FOUND, lost_by(parts)))


@pytest.mark.parametrize("ranks", [[1, 3], [3]], ids=["several ranks", "one rank"])
def test_each_cause_in_the_node_has_its_words(ranks: list[int]) -> None:
    one = msgspec.structs.replace(FOUND, ranks=ranks)
    said = {recurrence_sentence(because(one, lost_by([Part(kind, 1e4)]))) for kind in IN_NODE}
    assert len(said) == len(IN_NODE)
    assert all(f", as {'they' if len(ranks) > 1 else 'it'} " in sentence for sentence in said)
