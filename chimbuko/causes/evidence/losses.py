"""What ranks lost as their node kept them from running, by its samples: in the same terms as calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind
from chimbuko.core.calls.waiting import Waits
from chimbuko.monitor.samples.nodebatch import SAMPLED_US, NodeBatch, RankLoss

MAIN_THREAD = 0
_FIRST = "L"
"""Of ids, which no call has."""


def losses_in(batch: NodeBatch) -> Iterator[Flag]:
    """Those that a node reports."""
    for loss in batch.losses:
        yield _flag(loss, batch.node)


def sampled_part(loss: Flag) -> Flag:
    """The beginning of a loss, of which there are samples: as much was lost there as in all of it."""
    to_us = min(loss.lost_to_us, loss.lost_from_us + SAMPLED_US)
    share = (to_us - loss.lost_from_us) / max(1, loss.lost_to_us - loss.lost_from_us)
    return replace(loss, lost_to_us=to_us, excess_us=share * loss.excess_us)


def is_loss_id(call_id: str) -> bool:
    """Whether this is no call."""
    return call_id.startswith(_FIRST)


def _flag(loss: RankLoss, node: str) -> Flag:
    kind = Kind.STOPPED if loss.is_stopped else Kind.WAITED_FOR_CORE
    return Flag(
        id=f"{_FIRST}{loss.program}:{loss.rank}:{loss.begin_us}{kind.value[0]}",
        program=loss.program,
        rank=loss.rank,
        thread=MAIN_THREAD,
        node=node,
        function="",
        entry_us=loss.begin_us,
        exit_us=loss.end_us,
        exclusive_us=loss.lost_us,
        judged_us=float(loss.lost_us),
        expected_us=0.0,
        excess_us=float(loss.lost_us),
        is_exclusive=False,
        ancestors=(),
        children=(),
        calls_made=0,
        messages=(),
        waits=Waits.NOT,
        lost_from_us=loss.begin_us,
        lost_to_us=loss.end_us,
        loss=kind,
    )
