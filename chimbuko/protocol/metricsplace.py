"""Where a run can be asked for its metrics, and by whom."""

from __future__ import annotations

import ipaddress

from chimbuko.errors import ConfigError
from chimbuko.protocol.broker import LOOPBACK, address_of

TOKEN_VARIABLE = "CHIMBUKO_METRICS_TOKEN"
"""Environment variable with what Prometheus has to bring: on a command line other users could read it."""


def metrics_place(given: str, token: str) -> tuple[str, int]:
    """Address and port of ``[WHERE:]PORT``; the loopback where nothing else is said.

    Raises
    ------
    ConfigError
        It is no such place, or others could ask there without a token.
    """
    where, _, port = given.rpartition(":")
    if not (port.isdecimal() and int(port) < 1 << 16):
        raise ConfigError(f"--metrics {given}: {port!r} is no port; give one like 9464 or ib0:9464")
    address = address_of(where) if where else LOOPBACK
    if not (token or ipaddress.ip_address(address).is_loopback):
        raise ConfigError(
            f"--metrics {given}: others reach {address}; set a token for them in {TOKEN_VARIABLE}, "
            "which Prometheus then brings as 'authorization'"
        )
    return address, int(port)
