"""Environment of a shielded application, and reports on whether it was shielded."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

from chimbuko.capture.shield.builds import CHECKED_BUILDS
from chimbuko.capture.shield.library import shield_library
from chimbuko.runtime.preload import PRELOAD_VARIABLE

REPORT_VARIABLE = "CHIMBUKO_SHIELD_REPORT"

ADVICE = "use --transport files, the default, where no reader can reach the program"


def shield_environment(
    folder_for_reports: Path,
    environment: Mapping[str, str],
    builds: Collection[str] = CHECKED_BUILDS,
) -> dict[str, str]:
    """Return the environment of an application that is to be shielded.

    Parameters
    ----------
    folder_for_reports
        Folder, on the same node, in which each process that streams over SST leaves a line.
    environment
        Environment of the application without the shield; its own ``LD_PRELOAD`` is kept, behind the shield.

    Raises
    ------
    ConfigError
        The library cannot be built or kept here.
    """
    library = shield_library(environment, builds)
    preloaded = " ".join(filter(None, [str(library), environment.get(PRELOAD_VARIABLE, "")]))
    return {**environment, PRELOAD_VARIABLE: preloaded, REPORT_VARIABLE: str(folder_for_reports)}


def shield_problems(folder: Path, streams: int = 0) -> list[str]:
    """Return sentences on the shield for a run's summary; none where it was active.

    Parameters
    ----------
    folder
        Folder in which the processes have left their reports.
    streams
        Number of streams over SST: if there were any and no report, no process had the shield.
    """
    if not (reports := _reports(folder)):
        if not streams:
            return []
        return [
            "the shield against dying readers was loaded by no process that streamed over SST "
            f"(is its ADIOS2 linked statically, or LD_PRELOAD taken away?); {ADVICE}"
        ]
    unknown = Counter(Path(words[2]).name for words in reports if words[0] == "unknown")
    return [
        f"the shield against dying readers is off in {count} process{'es' if count > 1 else ''}: "
        f"the ADIOS2 there ({name}) is not among the builds that it was checked with; {ADVICE}"
        for name, count in sorted(unknown.items())
    ]


def shield_states(folder: Path) -> Counter[str]:
    """Return the number of processes by state, ``active`` or ``unknown``."""
    return Counter(words[0] for words in _reports(folder))


def _reports(folder: Path) -> list[list[str]]:
    """Return each process's state, pair of build ids, and for an unknown one the path of libadios2_evpath."""
    reports: list[list[str]] = []
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".txt"))
    except OSError:
        return reports
    for name in names:
        try:
            words = (folder / name).read_text(errors="replace").rstrip("\n").split(" ", 2)
        except OSError:
            continue
        if (words[0] == "active" and len(words) == 2) or (words[0] == "unknown" and len(words) == 3):
            reports.append(words)
    return reports
