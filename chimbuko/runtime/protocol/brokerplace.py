"""Places at which processes reach each other: a broker, and where a run is asked for its metrics.

It is imported before the user's program starts, and loads no client, which takes 65 ms.
"""

from __future__ import annotations

import fcntl
import socket
import struct

from chimbuko.core.errors import ConfigError

LOOPBACK = "127.0.0.1"
BROKER_VARIABLE = "CHIMBUKO_BROKER"
"""Environment variable with the broker's URL: on a command line other users could read its password."""
_SIOCGIFADDR = 0x8915
"""Linux's request for the address of a network interface."""


def address_of(name: str) -> str:
    """Return the IPv4 address of a network interface of this node, or of a host's name.

    Raises
    ------
    ConfigError
        ``name`` is neither the one nor the other.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            # struct ifreq: the interface's name in 16 bytes; its address is in bytes 20 to 24 of the answer.
            request = struct.pack("256s", name.encode()[:15])
            return socket.inet_ntoa(fcntl.ioctl(any_socket, _SIOCGIFADDR, request)[20:24])
        except OSError:
            pass
    try:
        return socket.gethostbyname(name)
    except OSError as error:
        raise ConfigError(f"{name}: neither an address, nor a network interface, nor a host") from error


def listening_place(bind: str) -> tuple[str, int]:
    """Return address and port that a broker is to listen on, from ``WHERE[:PORT]``; port 0 for any that is
    free.

    Raises
    ------
    ConfigError
        There is no such address here, or others could not find it.
    """
    name, colon, port = bind.partition(":")
    if colon and not (port.isdecimal() and 0 < int(port) < 1 << 16):
        raise ConfigError(f"--bind {bind}: {port!r} is no port; give one like ib0:6400")
    address = address_of(name)
    if address == "0.0.0.0":
        raise ConfigError("--bind 0.0.0.0: others need the address of one network; name it, or its interface")
    return address, int(port or 0)


TOKEN_VARIABLE = "CHIMBUKO_METRICS_TOKEN"
"""Environment variable with the token that Prometheus has to bring: on a command line other users could read
it. A run makes one itself where it is not set.
"""


def metrics_place(given: str) -> tuple[str, int]:
    """Return address and port of ``[WHERE:]PORT``; the loopback without an address.

    Raises
    ------
    ConfigError
        The text is no address and port.
    """
    where, _, port = given.rpartition(":")
    if not (port.isdecimal() and int(port) < 1 << 16):
        raise ConfigError(f"--metrics {given}: {port!r} is no port; give one like 9464 or ib0:9464")
    return address_of(where) if where else LOOPBACK, int(port)


def metrics_of_part(given: str, part: int) -> str:
    """Return the address of one part of the parameter server: parts have ports that follow each other.

    Raises
    ------
    ConfigError
        There are not as many ports.
    """
    where, colon, port = given.rpartition(":")
    if not port.isdecimal() or port == "0":
        return given
    if int(port) + part >= 1 << 16:
        raise ConfigError(
            f"--metrics {given}: {part + 1} parts of the server need as many ports from there on; "
            "give a lower one"
        )
    return f"{where}{colon}{int(port) + part}"
