"""Changes to a tree: values that were set, and values that were appended.

Changes that one client makes one after the other can be put together into one that does the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from chimbuko.observe.namespaces.tree.leaves import Leaf, joined, size_of
from chimbuko.observe.namespaces.tree.paths import Path
from chimbuko.observe.namespaces.tree.tree import Tree

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
