"""Publishes the files of RADICAL-Pilot's profiles, once or as they grow."""

from __future__ import annotations

import glob
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from chimbuko.core.errors import ConfigError
from chimbuko.observe.namespaces.client.client import Client
from chimbuko.observe.workflow.profiles import TaskProfiles
from chimbuko.observe.workflow.record import NAMESPACE


class ProfileFiles:
    """Files that may grow, and new ones that may come."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns
        self._read_to: dict[Path, int] = {}

    def new_lines(self) -> list[str]:
        """Whole lines that were written since the last call, those of different files in order of time.

        Raises
        ------
        ConfigError
            A file cannot be read.
        """
        lines: list[str] = []
        for path in sorted({Path(name) for one in self._patterns for name in glob.glob(one)}):
            try:
                with path.open("rb") as file:
                    file.seek(self._read_to.get(path, 0))
                    content = file.read()
            except OSError as error:
                raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
            whole = content[: content.rfind(b"\n") + 1]
            self._read_to[path] = self._read_to.get(path, 0) + len(whole)
            lines += whole.decode(errors="replace").splitlines()
        return sorted(lines, key=_time_s)

    @property
    def is_empty(self) -> bool:
        """Whether there was no file."""
        return not self._read_to


def publish_profiles(patterns: Sequence[str], place: str | None, look_s: float | None) -> int:
    """Publish what profiles say of tasks; returns of how many lines.

    Parameters
    ----------
    look_s
        Between two looks for what is new, until an interrupt; None to look once.

    Raises
    ------
    ConfigError, ServiceError
        There is no such file, or no service.
    """
    files, profiles = ProfileFiles(patterns), TaskProfiles()
    number = 0
    with Client(place) as client, suppress(KeyboardInterrupt):
        workflow = client.create(NAMESPACE)
        while True:
            for values in profiles.observations(files.new_lines()):
                workflow.update_all(values)
                number += 1
            workflow.publish()
            if look_s is None:
                break
            time.sleep(look_s)
    if files.is_empty and look_s is None:
        raise ConfigError(f"{' '.join(patterns)}: no file matches; profiles are in folders of tasks, *.prof")
    return number


def _time_s(line: str) -> float:
    with suppress(ValueError):
        return float(line.partition(",")[0])
    return 0.0
