"""Stream of frames at the broker, of which dashboards read what they lack."""

from __future__ import annotations

from collections import deque
from typing import cast

from chimbuko.runtime.protocol.messages import PAYLOAD, Frame
from chimbuko.runtime.protocol.runbroker import RunBroker

KEPT_BYTES = 32 << 20
"""Size of the frames that are kept; a reader that lags further asks for a snapshot."""


class FrameStream:
    """Stream of the frames of one server, the oldest of which are removed when all are too large."""

    def __init__(self, broker: RunBroker) -> None:
        self._broker = broker
        self._kept: deque[tuple[bytes, int]] = deque()
        """Ids and sizes in bytes of the frames that are kept."""

    def send(self, frame: Frame) -> None:
        """Send a frame to all who read them."""
        payload = self._broker.seal.encode(frame)
        entry = self._broker.client.xadd(self._broker.keys.frames, {PAYLOAD: payload})
        self._kept.append((cast(bytes, entry), len(payload)))
        self._trim()

    def _trim(self) -> None:
        size = sum(size for _, size in self._kept)
        if size <= KEPT_BYTES:
            return
        while size > KEPT_BYTES and len(self._kept) > 1:
            size -= self._kept.popleft()[1]
        self._broker.client.xtrim(self._broker.keys.frames, minid=self._kept[0][0], approximate=False)
