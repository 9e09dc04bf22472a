"""SOMA's address file, where a client finds its server, and its node file, a list of all servers.

The first line of an address file is the number of servers.

Each further line has the number of a server, from 0 on, and its address. SOMA's own writes lines as servers
come up, so that those of an earlier run can be left in it; ours is written in one piece.
"""

from __future__ import annotations

from collections.abc import Sequence
<<<<<<< HEAD:chimbuko/observe/namespaces/tree/addresses.py
from pathlib import Path

from chimbuko.core.errors import ConfigError
=======
>>>>>>> libs:chimbuko/namespaces/texts/addresses.py


def format_addresses(addresses: Sequence[str]) -> str:
    """The text of an address file."""
    lines = [str(len(addresses)), *(f"{number} {address}" for number, address in enumerate(addresses))]
    return "\n".join(lines) + "\n"


def format_collectors(count: int) -> str:
    """The text of a node file: the number of each server on a line of its own."""
    return "".join(f"{number}\n" for number in range(count))
