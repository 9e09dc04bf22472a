"""A WebSocket client that reads what comes with the answer to its handshake."""

from __future__ import annotations

import simple_websocket


class Client(simple_websocket.Client):  # type: ignore[misc]
    """As simple_websocket's, which leaves such a message lying until another one comes."""

    def handshake(self) -> None:
        """See there."""
        super().handshake()
        self.connected = self._handle_events()
