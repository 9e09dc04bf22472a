"""What a profile of Caliper (``.cali``) says of the process that wrote it. No I/O.

Caliper's services aggregate and recorder write one at each flush: records with a region's path and sums, and
at the end one with what is known of the whole process.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from caliperreader import CaliperStreamReader

from chimbuko.capture.formats.readers.caliper import CheckedNodes
from chimbuko.core.errors import ObservationError
from chimbuko.observe.namespaces.tree.paths import key_of

MOST_REGIONS: Final = 64
"""Of a process."""
MOST_METRICS: Final = 32
OTHERS: Final = "(others)"
NO_REGION: Final = "(no region)"
_LAST: Final = b"__rec=globals"
_TIMES: Final = {"time.duration.ns": 1e-3, "time.duration": 1.0}
"""Names of times, and what makes µs of them; of the latter where it does not say another unit."""
_UNITS: Final = {"nsec": 1e-3, "usec": 1.0, "msec": 1e3, "sec": 1e6}
RANK: Final = "mpi.rank"
_CALLS: Final = "region.count"


@dataclass
class Profile:
    """Of one process."""

    rank: int | None = None
    """In MPI, where Caliper knows it."""
    exclusive_us: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By region, wherever it was entered."""
    calls: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By region, as far as Caliper counts them."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Other numbers, by Caliper's names: sums over all regions, and minima and maxima (``max#…``)."""

    def leaves(self, chosen: dict[str, None]) -> Iterator[tuple[str, float]]:
        """Keys below the rank's, and their values.

        Parameters
        ----------
        chosen
            Regions that have a key: others come to them, those that take the most time first, while there is
            room.
        """
        by_time = sorted(self.exclusive_us.items(), key=lambda entry: -entry[1])
        for region, _ in by_time:
            if len(chosen) == MOST_REGIONS:
                break
            chosen.setdefault(region)
        rest_us = 0.0
        for region, time_us in by_time:
            if region in chosen:
                yield f"{key_of(region)}_Exclusive", time_us
                if region in self.calls:
                    yield f"{key_of(region)}_Calls", self.calls[region]
            else:
                rest_us += time_us
        if rest_us:
            yield f"{OTHERS}_Exclusive", rest_us
        for name in sorted(self.metrics)[:MOST_METRICS]:
            yield key_of(name), self.metrics[name]


def is_whole(data: bytes) -> bool:
    """Whether it is a profile to its end: Caliper writes what is known of the process last."""
    last = data.rstrip(b"\n").rpartition(b"\n")[-1]
    return data.endswith(b"\n") and last.startswith(_LAST)


def read_profile(data: bytes) -> Profile:
    """Read a whole profile.

    Raises
    ------
    ObservationError
        It is none of Caliper's, or has no times of regions.
    """
    reader, nodes, profile = CaliperStreamReader(), CheckedNodes(), Profile()
    lines = (nodes.checked(line) for line in data.decode(errors="replace").splitlines() if line.strip())
    try:
        reader.read(lines, lambda record: _take(record, reader, profile))
    except Exception as error:
        # Of its reader, in many ways: a backslash at the end of a line stops an iterator of it.
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        raise ObservationError(f"it holds a line that is not Caliper's ({reason})") from error
    if not profile.exclusive_us:
        raise ObservationError(
            "it has no times of regions; record with CALI_SERVICES_ENABLE=aggregate,event,recorder,timer"
        )
    rank = reader.globals.get(RANK)
    if profile.rank is None and rank is not None:
        profile.rank = _number(rank)
    return profile


def _take(record: Mapping[str, Any], reader: CaliperStreamReader, profile: Profile) -> None:
    """One record."""
    path = record.get("path", ())
    region = str(path[-1]) if isinstance(path, Sequence) and path else NO_REGION
    for name, value in record.items():
        kind, _, metric = name.rpartition("#")
        if name == RANK:
            profile.rank = _number(value)
        elif metric in _TIMES and kind in ("", "sum"):
            profile.exclusive_us[region] += float(value) * _microseconds(reader, metric)
        elif metric == _CALLS:
            if kind == "sum":
                profile.calls[region] += float(value)
        elif not metric.startswith("time.") and (kind in ("sum", "min", "max") or _is_metric(reader, name)):
            _add(profile.metrics, kind, name.removeprefix("sum#"), float(value))


def _add(metrics: dict[str, float], kind: str, name: str, value: float) -> None:
    if kind in ("min", "max"):
        metrics[name] = (min if kind == "min" else max)(metrics.get(name, value), value)
    else:
        metrics[name] = metrics.get(name, 0.0) + value


def _is_metric(reader: CaliperStreamReader, name: str) -> bool:
    attribute = reader.db.attributes.get(name)
    return attribute is not None and attribute.is_value() and attribute.is_aggregatable() and name != "count"


def _microseconds(reader: CaliperStreamReader, metric: str) -> float:
    attribute = reader.db.attributes.get(metric)
    unit = None if attribute is None else attribute.get("time.unit")
    return _UNITS.get(str(unit), _TIMES[metric])


def _number(text: Any) -> int | None:
    return int(text) if isinstance(text, str) and text.isdecimal() and len(text) < 9 else None
