"""Address at which a run can be asked for its metrics, and the token that is needed."""

from __future__ import annotations

from chimbuko.core.errors import ConfigError
from chimbuko.runtime.protocol.brokerplace import LOOPBACK, address_of

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
