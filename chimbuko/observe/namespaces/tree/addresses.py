"""SOMA's address file, where a client finds its server, and its node file, a list of all servers.

The first line of an address file is the number of servers.

Each further line has the number of a server, from 0 on, and its address. SOMA's own writes lines as servers
come up, so that those of an earlier run can be left in it; ours is written in one piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chimbuko.core.errors import ConfigError


def format_addresses(addresses: Sequence[str]) -> str:
    """The text of an address file."""
    lines = [str(len(addresses)), *(f"{number} {address}" for number, address in enumerate(addresses))]
    return "\n".join(lines) + "\n"


def format_collectors(count: int) -> str:
    """The text of a node file: the number of each server on a line of its own."""
    return "".join(f"{number}\n" for number in range(count))


def parse_addresses(text: str, source: Path) -> list[str]:
    """The addresses in such a file, by the number of their server.

    Raises
    ------
    ConfigError
        It is none, or has not all of them (yet).
    """
    count, *lines = text.splitlines() or [""]
    if not count.strip().isdecimal():
        raise ConfigError(f"{source}: no address file: its first line is not a number of servers")
    found: dict[int, str] = {}
    for line in lines:
        number, _, address = line.strip().partition(" ")
        if not number:
            continue
        if not number.isdecimal() or not address.strip():
            raise ConfigError(f"{source}: {line!r} is no number and address of a server")
        if int(number) in found:
            raise ConfigError(f"{source}: has server {number} twice: remove what another run has left there")
        found[int(number)] = address.strip()
    if sorted(found) != list(range(int(count))):
        raise ConfigError(f"{source}: has {len(found)} of {count.strip()} servers")
    return [found[number] for number in range(int(count))]


def server_of(client: int, servers_per_instance: int, instance: int) -> int:
    """The server of a client, as SOMA assigns it: those of an instance by turns."""
    return instance * servers_per_instance + client % servers_per_instance
