"""Keeps the streams of a folder within their limits: finds them, weighs them, drops what is unread."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from chimbuko.capture.follow.holes import GUARD, DataFile, FirstStep
from chimbuko.capture.follow.limits import Held, Limits, first_steps
from chimbuko.capture.follow.room import Room
from chimbuko.capture.follow.steps import DATA, StepIndex

_SUFFIX = ".bp"
BUSY_S = 0.25
"""Between two looks while streams grow: what is written in it, they may be beyond their limits."""
IDLE_S = 0.5
"""Time in seconds between two looks while nothing grows. There must be room for what streams write in it."""
_LEAST_S = 0.01
_LOOKS_AHEAD = 4
"""Least room, as a multiple of what is written between two looks."""


def is_stream(name: str) -> bool:
    """Whether a folder of this name is a stream's, or that of an instance of its program that has ended."""
    # As ``instances.parse_aside``, but without paths and patterns, which would be a third of its memory.
    stem, _, first_rank = name.rpartition(".")
    return name.endswith(_SUFFIX) or (stem.endswith(_SUFFIX) and first_rank.isdecimal())


class FollowedStream:
    """One stream, as the guard sees it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.index = StepIndex(path)
        self.held_bytes = 0
        self.other_bytes = 0
        self.was_trimmed = False
        self._size = 0
        self._size_read = -1
        self._restarts = 0
        self._data = DataFile(path, GUARD)
        self._first = FirstStep(path, GUARD)

    def look(self) -> int:
        """See how much space it takes; by how many bytes its data has grown."""
        try:
            data = os.stat(os.path.join(self.path, DATA))
        except OSError:
            self.held_bytes = 0
            return 0
        self.held_bytes = data.st_blocks * 512
        before, self._size = self._size, data.st_size
        return max(data.st_size - before, 0)

    def catch_up(self) -> None:
        """Read of the index what is new in it, if anything can be."""
        if self._size != self._size_read:
            self._size_read = self._size
            self.index.read()
            if self.index.restarts != self._restarts:
                # What was given back in the old data is there again in the new.
                self._restarts = self.index.restarts
                self._data = DataFile(self.path, GUARD)

    def weigh_others(self) -> None:
        """See how much its metadata takes, which cannot be given back."""
        with suppress(OSError), os.scandir(self.path) as entries:
            self.other_bytes = sum(entry.stat().st_blocks * 512 for entry in entries if entry.name != DATA)

    def forget(self) -> None:
        """Forget steps that are gone."""
        if not self.index.restarts:
            self.index.forget_before(self._first.get())

    def held(self) -> Held:
        """Return what of the stream can be dropped: the truth is what the file system holds, whoever has said
        what.
        """
        begin = self._data.begin
        first = self.index.step_at(begin)
        begins = self.index.begins(first)
        if begins:
            begins = [max(begin, begins[0]), *begins[1:]]
        return Held(self.held_bytes, first, begins)

    def drop_before(self, step: int) -> None:
        """Give back the data of all earlier steps."""
        self.was_trimmed = True
        self._data.give_back(step, self.index.begin(step))


class Trimmer:
    """All streams of one folder.

    Parameters
    ----------
    report
        Function that takes a line for the user, one about each stream.
    """

    def __init__(self, folder: str, limits: Limits, room: Room, report: Callable[[str], None]) -> None:
        self._folder = folder
        self._limits = limits
        self._room = room
        self._report = report
        self._left = 0
        self._burst = 0
        self.streams: dict[str, FollowedStream] = {}

    def find(self) -> None:
        """Look for streams."""
        with os.scandir(self._folder) as entries:
            found = [entry.path for entry in entries if is_stream(entry.name)]
        self.streams = {path: self.streams.get(path) or FollowedStream(path) for path in found}

    def tidy(self) -> None:
        """Do what is not to be done at each look."""
        for stream in self.streams.values():
            stream.weigh_others()
            stream.catch_up()
            stream.forget()

    def look(self, passed_s: float) -> float:
        """Drop what is beyond the limits; the seconds until it should be looked again.

        Parameters
        ----------
        passed_s
            Seconds since the last look.
        """
        streams = list(self.streams.values())
        grown = sum([stream.look() for stream in streams])
        # Steps of all ranks often come at once: beyond the reserve there is room for those of one look.
        self._burst = max(self._burst * 99 // 100, grown if self._left else 0)
        limits = self._limits._replace(reserve_bytes=self._limits.reserve_bytes + self._burst)
        left = self._room.left(_LOOKS_AHEAD * limits.reserve_bytes).left_bytes
        taken, self._left = max(self._left - left, grown), left
        self._trim(streams, limits, left)
        wanted = BUSY_S if grown else IDLE_S
        if taken <= 0:
            return wanted
        return max(min(wanted, left * passed_s / (_LOOKS_AHEAD * taken)), _LEAST_S)

    def _trim(self, streams: list[FollowedStream], limits: Limits, left_bytes: int) -> None:
        other_bytes = sum(stream.other_bytes for stream in streams)
        held_bytes = [stream.held_bytes for stream in streams]
        if (
            max(held_bytes, default=0) <= limits.stream_bytes
            and sum(held_bytes) + other_bytes <= limits.node_bytes
            and left_bytes >= limits.reserve_bytes
        ):
            return
        for stream in streams:
            stream.catch_up()
        held = [stream.held() for stream in streams]
        failures = []
        for stream, before, step in zip(
            streams, held, first_steps(held, limits, other_bytes, left_bytes), strict=True
        ):
            if step > before.first_step:
                if not stream.was_trimmed:
                    name, size = os.path.basename(stream.path), before.held_bytes / 1e6
                    self._report(f"{name}: its oldest unread steps are dropped, {size:.1f} MB were held")
                try:
                    stream.drop_before(step)
                except OSError as error:
                    # The others can still be helped.
                    failures.append(error)
        if failures:
            raise failures[0]
