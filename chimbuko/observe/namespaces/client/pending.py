"""What was updated in a namespace and is not published yet. No I/O."""

from __future__ import annotations

from enum import Enum

from chimbuko.core.errors import ObservationError
from chimbuko.observe.namespaces.tree.change import Change
from chimbuko.observe.namespaces.tree.leaves import is_same
from chimbuko.observe.namespaces.tree.paths import Path
from chimbuko.observe.namespaces.tree.tree import Tree, leaf_at

MOST_LEAVES = 100_000
"""Whose values a client remembers. Of others it takes any type, and each value for new."""


class Mode(Enum):
    """What an update does with what was there."""

    OVERWRITE = "overwrite"
    APPEND = "append"


class Pending:
    """Updates and commits of one client in one namespace."""

    def __init__(self) -> None:
        self.frequency = 1
        """One publication for so many commits."""
        self._tree = Tree()
        self._appended_to: set[Path] = set()
        """Leaves of which only what was appended last is remembered, for its type."""
        self._open = Change()
        self._committed = Change()
        self._commits = 0

    def update(self, path: Path, value: object, mode: Mode) -> None:
        """Set a leaf or append to it. The same value once more changes nothing.

        Raises
        ------
        ObservationError
            The value or its type does not fit.
        """
        if not path:
            raise ObservationError("the empty path is no key; give one like 'step'")
        leaf = self._tree.fit(path, leaf_at(path, value))
        old = self._tree.get(path)
        if mode is Mode.APPEND:
            self._appended_to.add(path)
            self._open.note_appended(path, leaf)
        elif old is None or path in self._appended_to or not is_same(old, leaf):
            self._appended_to.discard(path)
            self._open.note_put(path, leaf)
        else:
            return
        self._tree.put(path, leaf)
        while len(self._tree) > MOST_LEAVES:
            oldest = self._tree.oldest()
            self._tree.remove(oldest)
            self._appended_to.discard(oldest)

    def commit(self) -> bool:
        """What was updated can be published; returns whether it is to be now."""
        self._committed = self._committed.then(self._open)
        self._open = Change()
        self._commits += 1
        return self._commits >= self.frequency

    def taken(self) -> tuple[Change, int]:
        """What was committed, and in how many commits; it counts as published from now on."""
        change, commits = self._committed, self._commits
        self._committed, self._commits = Change(), 0
        return change, commits
