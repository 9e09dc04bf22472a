"""Trees, and what changes in them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.errors import ObservationError
from chimbuko.observe.namespaces.exchange.leaves import Leaf, as_leaf, element_type, is_same, joined
from chimbuko.observe.namespaces.exchange.paths import Path
from chimbuko.observe.namespaces.exchange.tree import Change, Tree, apply, flattened, nested
from tests.observe.namespaces.strategies import FEW, LEAVES


def test_a_tree_prints_itself_and_says_what_it_has_not() -> None:
    tree = Tree([(("Rank 3", "loss"), as_leaf(0.25)), (("step",), as_leaf(7))])
    assert str(tree) == '"Rank 3":\n  "loss": 0.25\n"step": 7\n'
    assert repr(tree) == "Tree(2 values)"
    assert tree["Rank 3/loss"] == as_leaf(0.25)
    with pytest.raises(ObservationError, match="Rank 3/los: no value in this tree of 2"):
        tree["Rank 3/los"]


CLOSE_PATHS: st.SearchStrategy[Path] = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(tuple)
STEPS = st.lists(st.tuples(CLOSE_PATHS, LEAVES, st.booleans()), max_size=12)
Steps = Sequence[tuple[Path, Leaf, bool]]


def plain_steps(steps: Steps) -> dict[Path, Leaf]:
    """Slow and obvious: what a tree holds after leaves were set, or appended to."""
    held: dict[Path, Leaf] = {}
    for path, leaf, is_appended in steps:
        old = held.get(path)
        new = leaf if old is None or not is_appended else joined(old, leaf)
        held = {
            other: value
            for other, value in held.items()
            if other[: len(path)] != path and path[: len(other)] != other
        }
        held[path] = new
    return held


def taken(tree: Tree, steps: Steps) -> list[Change]:
    """One change for each step that a client's tree takes, which refuses others."""
    changes = []
    for path, leaf, is_appended in steps:
        try:
            fit = tree.fit(path, leaf)
        except ObservationError:
            continue
        change = Change({}, {path: fit}) if is_appended else Change({path: fit}, {})
        apply(tree, change)
        changes.append(change)
    return changes


@FEW
@given(STEPS)
def test_a_tree_holds_what_was_set_last_with_what_was_appended(steps: Steps) -> None:
    tree = Tree()
    for path, leaf, is_appended in steps:
        before = {at for at, _ in tree}
        gone = tree.append(path, leaf) if is_appended else tree.put(path, leaf)
        assert before - {at for at, _ in tree} == set(gone)
    assert tree == Tree(plain_steps(steps).items())
    assert [path for path, _ in tree] == list(plain_steps(steps))
    for path, leaf in tree:
        assert is_same(tree.under(path).get(path), leaf)  # type: ignore[arg-type]
    assert tree.under(()) == tree


@FEW
@given(STEPS, STEPS)
def test_a_tree_whose_leaves_were_removed_is_as_if_they_had_never_been(steps: Steps, others: Steps) -> None:
    tree = Tree()
    for path, leaf, _ in steps:
        tree.put(path, leaf)
    while len(tree):
        tree.remove(tree.oldest())
    assert tree == Tree()
    # Also in what it takes: no group is left.
    for path, leaf, _ in others[:1]:
        assert is_same(tree.fit(path, leaf), leaf)


@FEW
@given(STEPS)
def test_changes_of_a_client_can_be_put_together(steps: Steps) -> None:
    """In any grouping, from the left and from the right."""
    tree = Tree()
    changes = taken(tree, steps)
    one_by_one, at_once, from_the_right = Tree(), Change(), Change()
    for change in changes:
        assert apply(one_by_one, change) == []
        at_once = at_once.then(change)
    for change in reversed(changes):
        from_the_right = change.then(from_the_right)
    for together in (at_once, from_the_right):
        other = Tree()
        apply(other, together)
        assert other == one_by_one == tree
    assert bool(at_once) == bool(changes)
    assert not at_once.put.keys() & at_once.appended.keys()


@FEW
@given(STEPS)
def test_nested_dictionaries_hold_the_same_leaves(steps: Steps) -> None:
    tree = Tree(plain_steps(steps).items())
    assert Tree(flattened(nested(tree))) == tree


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        (("a",), 1.0, "a: is a group, not a value; use another key"),
        (("a", "b", "c"), 1.0, "a/b/c: a/b is a value, not a group; use another key"),
        (("a", "b"), "text", "a/b: is a int64, and the new value a string; convert it, or use another key"),
        (("a", "b"), 0.5, "a/b: is a int64, and the new value a float64; convert it, or use another key"),
    ],
)
def test_a_tree_refuses_what_does_not_fit(path: Path, value: object, why: str) -> None:
    tree = Tree([(("a", "b"), 3)])
    with pytest.raises(ObservationError) as caught:
        tree.fit(path, as_leaf(value))
    assert str(caught.value) == why


def test_a_whole_number_fits_where_others_are_not_whole() -> None:
    tree = Tree([(("loss",), 0.5)])
    assert element_type(tree.fit(("loss",), 0)) == "float64"
