"""Entry of a run in the index of a memory over runs: what later questions need, without its calls."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

WALL, NODES = "wall", "nodes"
"""Names of the quantities of a run as a whole: its time, and its slowest node relative to the others."""
PART, LOST, FUNCTION = "part ", "lost ", "function "
"""Beginnings of the names of others: parts of the time of all threads, of the time lost, and functions."""


class Version(msgspec.Struct, frozen=True):
    """Version of what ran; a fact that is not known is empty."""

    commit: str = ""
    """Git commit of the folder that the run was started in."""
    build: str = ""
    """Build id of the program, or the first digits of a script's checksum."""
    modules: str = ""
    """Loaded modules, as in ``LOADEDMODULES``."""

    def changes_from(self, before: Version) -> list[str]:
        """Return what is known to be another than in a version before, in words."""
        found = []
        for name, was, now in (
            ("commit", before.commit[:10], self.commit[:10]),
            ("build", before.build[:10], self.build[:10]),
        ):
            if was and now and was != now:
                found.append(f"{name} {was} → {now}")
        if before.modules != self.modules:
            were, are = set(before.modules.split(":")), set(self.modules.split(":"))
            apart = [f"−{one}" for one in sorted(were - are) if one] + [
                f"+{one}" for one in sorted(are - were) if one
            ]
            found.append(f"modules {' '.join(apart)}")
        return found


class IncidentKind(msgspec.Struct, frozen=True, array_like=True):
    """Incidents of a run that are the same: function, cause and place."""

    program: str
    function: str
    kind: str
    """Main cause."""
    rank: int
    """Rank where the delay was; -1 if that is not known."""
    number: int
    cost_us: float

    @property
    def key(self) -> tuple[str, str, str, int]:
        """Key by which the same is found in other runs."""
        return self.program, self.function, self.kind, self.rank


class Details(msgspec.Struct, frozen=True):
    """Part of an entry that is read only for some questions."""

    incidents: list[IncidentKind] = []
    paces: dict[str, dict[str, float]] = {}
    """Mean time of a call by function and node, relative to the median of the nodes."""
    troubles: dict[str, dict[str, int]] = {}
    """Number of incidents by node and cause."""


class Entry(msgspec.Struct, frozen=True):
    """Entry of a run."""

    id: str
    name: str
    folder: str
    key: str
    """Key of the series that the run is of by what it is."""
    start_key: str
    """Key by which a run of the series is found before it is known how many ranks it has."""
    title: str
    """Series in words: program, size and input."""
    program: str
    started_us: int
    is_good: bool
    """Whether the run ended in order, and was seen nearly whole."""
    quantities: dict[str, float]
    """Quantities by name, in µs but for ``nodes``."""
    version: Version = Version()
    details: Details = Details()
    model: bytes = b""
    """Statistics of the run's own calls, as ``priors`` packs them."""


def day(time_us: int) -> str:
    """Return the day of a time, in UTC."""
    return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%Y-%m-%d")
