"""Links between calls: messages to and from other ranks, launches to a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

SEND = 0
RECEIVE = 1
LAUNCH = 2

LINK = np.dtype(
    [
        ("time_us", np.int64),  # on this rank
        ("other_us", np.int64),  # at the other end; UNKNOWN if it is not known
        ("size_bytes", np.int64),
        ("thread", np.int32),
        ("depth", np.int32),  # of the call that it is in; UNKNOWN if that is in no row
        ("other_rank", np.int32),
        ("other_thread", np.int32),
        ("other_depth", np.int32),
        ("tag", np.int32),
        ("number", np.int32),  # among those of this kind, other rank and tag, from 0
        ("count", np.int32),  # messages or launches in it
        ("kind", np.uint8),
    ],
    align=True,
)
UNKNOWN = -1

Links = npt.NDArray[Any]
"""``LINK`` records, by time."""


def numbered(links: Links) -> Links:
    """Return links by time, with their numbers: sender and receiver of a message give it the same one."""
    links = links[np.argsort(links["time_us"], kind="stable")]
    order = np.lexsort((np.arange(len(links)), links["tag"], links["other_rank"], links["kind"]))
    keys = links[["kind", "other_rank", "tag"]][order]
    is_first = np.ones(len(links), np.bool_)
    is_first[1:] = keys[1:] != keys[:-1]
    firsts = np.flatnonzero(is_first)
    places = np.arange(len(links))
    links["number"][order] = places - firsts[np.cumsum(is_first) - 1] if len(links) else places
    return links


def joined(links: Links, rank: int, other: int, of_other: Links) -> Links:
    """Return links of ``rank``; messages with the rank ``other`` get the times from that rank's own ends.

    Messages between two ranks with one tag do not overtake each other: the third that is sent is the third
    that is received.
    """
    is_ours = (links["other_rank"] == other) & (links["kind"] != LAUNCH)
    theirs = of_other[(of_other["other_rank"] == rank) & (of_other["kind"] != LAUNCH)]
    if not is_ours.any() or not len(theirs):
        return links
    links = links.copy()
    theirs = theirs[np.lexsort((theirs["number"], theirs["tag"], theirs["kind"]))]
    keys = _keys(1 - theirs["kind"].astype(np.int64), theirs)
    order = np.argsort(keys, kind="stable")
    keys, theirs = keys[order], theirs[order]
    ours = np.flatnonzero(is_ours)
    wanted = _keys(links["kind"][ours].astype(np.int64), links[ours])
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    is_found = keys[at] == wanted
    ours, ends = ours[is_found], theirs[at[is_found]]
    links["other_us"][ours] = ends["time_us"]
    links["other_thread"][ours], links["other_depth"][ours] = ends["thread"], ends["depth"]
    return links


def _keys(kinds: npt.NDArray[np.int64], links: Links) -> npt.NDArray[np.int64]:
    """Return kind, tag and number of links as one number each."""
    tags = links["tag"].astype(np.int64) & 0x7FFFFFFF
    keys: npt.NDArray[np.int64] = (kinds << 62) | (tags << 31) | links["number"]
    return keys


def around(links: Links, first_us: int, last_us: int) -> Links:
    """Return the links in a range of time, and as far before and after it as it is long.

    Few messages are under way for longer, and they would only be lines from edge to edge.
    """
    reach_us = last_us - first_us
    first, last = np.searchsorted(links["time_us"], (first_us - reach_us, last_us + reach_us))
    found: Links = links[int(first) : int(last)]
    return found


def between(links: Links, first_us: int, last_us: int) -> Links:
    """Return the links that have an end in a range of time, or lead over it."""
    other = np.where(links["other_us"] == UNKNOWN, links["time_us"], links["other_us"])
    begin, end = np.minimum(links["time_us"], other), np.maximum(links["time_us"], other)
    found: Links = links[(end >= first_us) & (begin <= last_us)]
    return found


def bundled(links: Links, most: int) -> Links:
    """Return about ``most`` links at most: links near to each other, between the same lines, become one."""
    found = links
    width_log2 = 0
    while len(found) > most:
        lines = _lines(found)
        if width_log2 == 0:
            length_us = int(found["time_us"].max() - found["time_us"].min())
            stretches = max(1, most // len(np.unique(lines)))
            width_log2 = max(1, (length_us // stretches).bit_length() - 1)
        # Bundles of bundles are bundles of the links, so that each round has less to do.
        found = _bundles(found, lines, width_log2)
        width_log2 += 1
        if width_log2 > _WIDEST_LOG2:
            break
    return found


_WIDEST_LOG2 = 60


def _lines(links: Links) -> npt.NDArray[np.int64]:
    """Return a number for each kind of link and pair of lines, in 51 bits."""
    is_launch = links["kind"] == LAUNCH
    others = np.where(is_launch, links["other_thread"], links["other_rank"]).astype(np.int64) + 1
    is_known = (links["other_us"] != UNKNOWN).astype(np.int64)
    lines: npt.NDArray[np.int64] = (others << 20) | (links["thread"].astype(np.int64) << 3)
    lines |= (is_known << 2) | links["kind"]
    return lines


def _bundles(links: Links, lines: npt.NDArray[np.int64], width_log2: int) -> Links:
    """Return one link for each pair of lines and 2 ** ``width_log2`` µs, with all but sums from the first."""
    stretches = links["time_us"] >> width_log2
    # The sort by lines is stable, so that times stay in order within each pair.
    order = np.argsort(lines, kind="stable")
    is_first = np.ones(len(links), np.bool_)
    is_first[1:] = (np.diff(lines[order]) != 0) | (np.diff(stretches[order]) != 0)
    firsts = np.flatnonzero(is_first)
    made: Links = links[order[firsts]]
    for name in ("count", "size_bytes"):
        made[name] = np.add.reduceat(links[name][order], firsts)
    by_time: Links = made[np.argsort(made["time_us"], kind="stable")]
    return by_time
