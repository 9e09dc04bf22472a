"""Lines about ranks that died: who ended by itself, and whom it ended with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MOST_SHOWN = 5
KILLED = "died (killed"
"""Beginning of what is said of a rank that was ended from outside."""
ABORTED = "called MPI_Abort"


def death_lines(ended: Mapping[str, str]) -> list[str]:
    """Return a line for each rank that died, those first that ended by themselves.

    Where one rank of a program did, those of its program that were killed stand in its line.

    Parameters
    ----------
    ended
        How each rank ended, by stream, which is ``program:rank``.
    """
    causes = {stream: text for stream, text in ended.items() if not text.startswith(KILLED)}
    programs = [_program(stream) for stream in causes]
    victims: dict[str, list[str]] = {}
    for stream in ended.keys() - causes.keys():
        if programs.count(_program(stream)) == 1:
            victims.setdefault(_program(stream), []).append(stream)
    lines = [
        f"Died: rank {stream} {text}{_with(victims.get(_program(stream), []), text)}"
        for stream, text in causes.items()
    ]
    lines += [
        f"Died: rank {stream} {text}"
        for stream, text in ended.items()
        if stream not in causes and _program(stream) not in victims
    ]
    more = len(lines) - MOST_SHOWN
    return lines[:MOST_SHOWN] + ([f"... and {more} further ranks died"] if more > 0 else [])


def _program(stream: str) -> str:
    return stream.partition(":")[0]


def _with(victims: Sequence[str], text: str) -> str:
    if not victims:
        return ""
    in_order = sorted(victims, key=lambda stream: int(stream.rpartition(":")[2]))
    more = f" and {len(victims) - MOST_SHOWN} more" if len(victims) > MOST_SHOWN else ""
    verb = "it ended" if text.startswith(ABORTED) else "with it ended"
    return f"; {verb} rank {', '.join(in_order[:MOST_SHOWN])}{more}"
