"""What changed in a tree: values that are new, and values that were appended.

Changes that one client makes one after the other can be put together into one that does the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from chimbuko.observe.namespaces.tree.leaves import Leaf, joined, size_of
from chimbuko.observe.namespaces.tree.paths import Path
from chimbuko.observe.namespaces.tree.tree import Tree

KEY_BYTES = 16
"""What a leaf takes at least beside its own bytes."""


class Change(msgspec.Struct):
    """What became of some leaves; none of those that are in both maps, or inside of each other."""

    put: dict[Path, Leaf] = {}
    """Leaves with the value that they have now."""
    appended: dict[Path, Leaf] = {}
    """Leaves with what was added at their end."""

    def __bool__(self) -> bool:
        return bool(self.put or self.appended)

    def __iter__(self) -> Iterator[tuple[Path, Leaf]]:
        yield from self.put.items()
        yield from self.appended.items()

    def parts(self, most_bytes: int) -> Iterator[Change]:
        """The same as several changes, each of which takes about so many bytes encoded, or has one leaf."""
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
        """After all else in this change, a leaf was set."""
        self.appended.pop(path, None)
        self.put[path] = leaf

    def note_appended(self, path: Path, more: Leaf) -> None:
        """After all else in this change, something was appended to a leaf."""
        if path in self.put:
            self.put[path] = joined(self.put[path], more)
        elif path in self.appended:
            self.appended[path] = joined(self.appended[path], more)
        else:
            self.appended[path] = more

    def then(self, later: Change) -> Change:
        """One change that does what this one and a later one of the same client do."""
        both = Change(dict(self.put), dict(self.appended))
        for path, leaf in later.put.items():
            both.note_put(path, leaf)
        for path, more in later.appended.items():
            both.note_appended(path, more)
        return both


def apply(tree: Tree, change: Change) -> list[Path]:
    """Make a change to a tree; returns the paths of other leaves that have gone by that. Where several
    clients disagree on what is at a path, the last one is right.
    """
    gone: list[Path] = []
    for path, leaf in change.put.items():
        gone += tree.put(path, leaf)
    for path, more in change.appended.items():
        gone += tree.append(path, more)
    return gone
