"""Flagged calls by the time that they lost, so that those of an interval are found at once."""

from __future__ import annotations

from bisect import bisect_left, insort

from chimbuko.causes.evidence.flag import Flag

_Entry = tuple[int, str, Flag]


class FlagIndex:
    """Calls in order of the beginning of their lost time; all times are on the common clock."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._longest_us = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, flag: Flag) -> None:
        """Another call."""
        insort(self._entries, (flag.common_from_us, flag.id, flag))
        self._longest_us = max(self._longest_us, flag.lost_to_us - flag.lost_from_us)

    def discard(self, flag: Flag) -> None:
        """Not this one any longer."""
        at = bisect_left(self._entries, (flag.common_from_us, flag.id))
        if at < len(self._entries) and self._entries[at][1] == flag.id:
            del self._entries[at]
        if not self._entries:
            self._longest_us = 0

    def during(self, begin_us: int, end_us: int) -> list[Flag]:
        """Those that lost time in an interval."""
        first = bisect_left(self._entries, (begin_us - self._longest_us, ""))
        last = bisect_left(self._entries, (end_us, ""))
        return [flag for *_, flag in self._entries[first:last] if flag.common_to_us > begin_us]
