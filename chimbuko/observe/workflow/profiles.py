"""Publishing of RADICAL-Pilot's profiles, files ``*.prof``, once or as they grow: states and events of
tasks.

Components and tasks of RADICAL-Pilot write them. A line has seven fields with commas between them:
time, event, component, thread, task, state, message. The time is in seconds since the epoch, and
lines that begin with ``#`` are comments.
"""

from __future__ import annotations

import glob
import math
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from chimbuko.core.errors import ConfigError
from chimbuko.observe.namespaces.client.client import Client
from chimbuko.observe.workflow.record import NAMESPACE, entered, time_key
from chimbuko.observe.workflow.task import State

_FIELDS = 7
_NAME = re.compile(r"[^\s/]{1,255}")
_USUAL_NAME = re.compile(r"(task|unit)\.[\w.-]+")
_STATE_OF_TASKS = re.compile(r"(TMGR|UMGR|AGENT)_\w+")
_STATES = {
    "NEW": State.NEW,
    "TMGR_SCHEDULING": State.NEW,
    "AGENT_SCHEDULING": State.SCHEDULED,
    "AGENT_EXECUTING": State.EXECUTING,
    **{state.value: state for state in State},
}
"""States of RADICAL-Pilot's tasks that are reported: those that change what a task waits for."""
ADVANCE = "advance"
"""Name of the event by which a task comes into a state."""


class TaskProfiles:
    """Parser of profiles, which reads tasks of any name: they are known by their states."""

    def __init__(self) -> None:
        self._since_us: dict[str, int] = {}

    def observations(self, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Return the observations of tasks in lines, each as values for the namespace ``workflow``.

        Lines that are of something else than a task, or broken off, give nothing. Where one says of a time
        before that of which another one has said the state, the state is the later one.
        """
        for line in lines:
            fields = line.rstrip("\n").split(",", _FIELDS - 1)
            if line.startswith("#") or len(fields) < _FIELDS:
                continue
            time_s, event, _, _, task, state, _ = fields
            time_us = _time_us(time_s)
            if time_us is None or not event or not self._is_task(task, state):
                continue
            since_us = self._since_us.setdefault(task, 0)
            if event != ADVANCE:
                yield {task: {"events": {time_key(time_us): event}}}
            elif state in _STATES:
                known = entered(task, _STATES[state], time_us, {})
                if time_us < since_us:
                    del known[task]["state"]
                self._since_us[task] = max(time_us, since_us)
                yield known

    def _is_task(self, name: str, state: str) -> bool:
        if name in self._since_us or _USUAL_NAME.fullmatch(name):
            return True
        return _NAME.fullmatch(name) is not None and _STATE_OF_TASKS.fullmatch(state) is not None


def _time_us(text: str) -> int | None:
    try:
        time_s = float(text)
    except ValueError:
        return None
    return round(time_s * 1e6) if math.isfinite(time_s) and time_s >= 0 else None


class ProfileFiles:
    """Profile files of a program; files may grow, and new ones may appear."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns
        self._read_to: dict[Path, int] = {}

    def new_lines(self) -> list[str]:
        """Return complete lines that were written since the last call, those of different files in order of
        time.

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
    """Publish the states and events of tasks in profiles, and return the number of lines with such.

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
