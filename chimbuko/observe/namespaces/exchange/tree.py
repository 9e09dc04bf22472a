"""Tree of leaves, which is the state of a namespace, and changes to it: leaves that were set, or appended to.

Changes that one client makes one after the other can be put together into one that does the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from chimbuko.core.errors import ObservationError
from chimbuko.observe.namespaces.exchange.leaves import (
    Leaf,
    as_leaf,
    check_size,
    element_type,
    fitted,
    is_same,
    joined,
    size_of,
)
from chimbuko.observe.namespaces.exchange.paths import Path, checked_path, format_path, parse_path

Nested: TypeAlias = dict[str, Any]
"""Nested dictionaries of groups and leaves."""


class Tree:
    """Leaves by path, the most recently changed at the end. No leaf is inside of another one."""

    def __init__(self, leaves: Iterable[tuple[Path, Leaf]] = ()) -> None:
        # A dictionary would look for its first entry behind all that were removed before.
        self._leaves: OrderedDict[Path, Leaf] = OrderedDict()
        self._groups: dict[Path, int] = {}
        """Number of leaves in each group, at any depth."""
        for path, leaf in leaves:
            self.put(path, leaf)

    def __len__(self) -> int:
        return len(self._leaves)

    def __iter__(self) -> Iterator[tuple[Path, Leaf]]:
        return iter(self._leaves.items())

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Tree)
            and self._leaves.keys() == other._leaves.keys()
            and all(is_same(leaf, other._leaves[path]) for path, leaf in self)
        )

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        # These know the tree.
        from chimbuko.observe.namespaces.exchange.texts import yaml

        return yaml(self)

    def __repr__(self) -> str:
        return f"Tree({len(self)} values)"

    def __getitem__(self, key: str) -> Leaf:
        """Return the leaf at a path, as text.

        Raises
        ------
        ObservationError
            There is none.
        """
        leaf = self.get(parse_path(key))
        if leaf is None:
            raise ObservationError(f"{key}: no value in this tree of {len(self)}")
        return leaf

    def get(self, path: Path) -> Leaf | None:
        """Return the leaf at a path; None if there is none."""
        return self._leaves.get(path)

    def under(self, path: Path) -> Tree:
        """Return the leaf at a path, or all leaves in a group."""
        return Tree((at, leaf) for at, leaf in self if at[: len(path)] == path)

    def fit(self, path: Path, leaf: Leaf) -> Leaf:
        """Return a new value for a path in the type that the leaf has.

        Raises
        ------
        ObservationError
            The path is a group or leads through a leaf, or the value is of another type.
        """
        if path in self._groups:
            raise ObservationError(f"{format_path(path)}: is a group, not a value; use another key")
        for length in range(1, len(path)):
            if path[:length] in self._leaves:
                at = format_path(path[:length])
                raise ObservationError(f"{format_path(path)}: {at} is a value, not a group; use another key")
        old = self._leaves.get(path)
        if old is None:
            return leaf
        new = fitted(leaf, element_type(old))
        if new is None:
            raise ObservationError(
                f"{format_path(path)}: is a {element_type(old)}, and the new value a {element_type(leaf)}; "
                "convert it, or use another key"
            )
        return new

    def put(self, path: Path, leaf: Leaf) -> list[Path]:
        """Set a leaf, whatever was there, and return the paths of other leaves that were removed by that."""
        gone = [] if path in self._leaves else self._in_the_way(path)
        for other in gone:
            self.remove(other)
        if self._leaves.pop(path, None) is None:
            self._count(path, 1)
        self._leaves[path] = leaf
        return gone

    def append(self, path: Path, more: Leaf) -> list[Path]:
        """Append to a leaf, or make it, and return the paths of other leaves that were removed by that."""
        old = self._leaves.get(path)
        return self.put(path, more if old is None else joined(old, more))

    def remove(self, path: Path) -> None:
        """Remove a leaf of the tree."""
        del self._leaves[path]
        self._count(path, -1)

    def oldest(self) -> Path:
        """Return the leaf that has not changed for the longest time."""
        return next(iter(self._leaves))

    def _in_the_way(self, path: Path) -> list[Path]:
        above = [path[:length] for length in range(1, len(path)) if path[:length] in self._leaves]
        if path not in self._groups:
            return above
        return above + [other for other in self._leaves if other[: len(path)] == path]

    def _count(self, path: Path, number: int) -> None:
        for length in range(1, len(path)):
            group = path[:length]
            self._groups[group] = self._groups.get(group, 0) + number
            if not self._groups[group]:
                del self._groups[group]


def nested(leaves: Iterable[tuple[Path, Any]]) -> Nested:
    """Return leaves, or values in their place, as nested dictionaries; no leaf is inside of another one."""
    root: Nested = {}
    for path, leaf in leaves:
        group = root
        for key in path[:-1]:
            group = group.setdefault(key, {})
        group[path[-1]] = leaf
    return root


def flattened(groups: Mapping[Any, Any]) -> Iterator[tuple[Path, Any]]:
    """Return the values of nested dictionaries by path. Empty dictionaries leave nothing.

    Raises
    ------
    ObservationError
        There is a key that is none, or they are too deep in each other.
    """
    waiting: list[tuple[Path, Mapping[Any, Any]]] = [((), groups)]
    while waiting:
        above, group = waiting.pop()
        for key, value in group.items():
            path = checked_path((*above, key))
            if isinstance(value, Mapping):
                waiting.append((path, value))
            else:
                yield path, value


def leaf_at(path: Path, value: object) -> Leaf:
    """Return a value as the leaf at a path, or raise ObservationError with the path if it cannot be one."""
    try:
        return as_leaf(value)
    except ObservationError as error:
        raise ObservationError(f"{format_path(path)}: {error}") from None


def check_leaf(path: Path, leaf: Leaf) -> None:
    """Raise ObservationError, with its path, if a leaf is too large."""
    try:
        check_size(leaf)
    except ObservationError as error:
        raise ObservationError(f"{format_path(path)}: {error}") from None


KEY_BYTES = 16
"""Least size of a leaf beside its own bytes."""


class Change(msgspec.Struct):
    """Change to some leaves; no leaf is in both maps, or inside of another one."""

    put: dict[Path, Leaf] = {}
    """Leaves that were set, with their values."""
    appended: dict[Path, Leaf] = {}
    """Leaves that were appended to, with the appended values."""

    def __bool__(self) -> bool:
        return bool(self.put or self.appended)

    def __iter__(self) -> Iterator[tuple[Path, Leaf]]:
        yield from self.put.items()
        yield from self.appended.items()

    def parts(self, most_bytes: int) -> Iterator[Change]:
        """Return the change as several changes, each of which takes about so many bytes encoded, or has one
        leaf.
        """
        part, size = Change({}, {}), 0
        for mine, source in (("put", self.put), ("appended", self.appended)):
            for path, leaf in source.items():
                takes = KEY_BYTES + sum(len(key.encode()) for key in path) + size_of(leaf)
                if size and size + takes > most_bytes:
                    yield part
                    part, size = Change({}, {}), 0
                getattr(part, mine)[path] = leaf
                size += takes
        if part:
            yield part

    def note_put(self, path: Path, leaf: Leaf) -> None:
        """Note that a leaf was set, after all else in this change."""
        self.appended.pop(path, None)
        self.put[path] = leaf

    def note_appended(self, path: Path, more: Leaf) -> None:
        """Note that something was appended to a leaf, after all else in this change."""
        if path in self.put:
            self.put[path] = joined(self.put[path], more)
        elif path in self.appended:
            self.appended[path] = joined(self.appended[path], more)
        else:
            self.appended[path] = more

    def then(self, later: Change) -> Change:
        """Return one change that does the same as this one and a later one of the same client."""
        both = Change(dict(self.put), dict(self.appended))
        for path, leaf in later.put.items():
            both.note_put(path, leaf)
        for path, more in later.appended.items():
            both.note_appended(path, more)
        return both


def apply(tree: Tree, change: Change) -> list[Path]:
    """Apply a change to a tree, and return the paths of other leaves that it removed."""
    gone: list[Path] = []
    for path, leaf in change.put.items():
        gone += tree.put(path, leaf)
    for path, more in change.appended.items():
        gone += tree.append(path, more)
    return gone
