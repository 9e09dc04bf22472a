"""The socket that a dashboard answers at."""

from __future__ import annotations

import socket

from chimbuko.errors import ServiceError
from chimbuko.protocol.broker import LOOPBACK


def listen(port: int) -> socket.socket:
    """A socket that listens on a port of the loopback; 0 takes any that is free.

    Raises
    ------
    ServiceError
        The port is taken.
    """
    # Bound here because Werkzeug would end the process on a port that is taken.
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        raise ServiceError(
            f"port {port} of {LOOPBACK} cannot be used ({error.strerror}); "
            "choose another with --port, 0 takes any"
        ) from None
