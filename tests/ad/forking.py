"""Fork servers as agents have them: all that readers need is loaded before."""

from __future__ import annotations

from chimbuko.ad.agent.__main__ import load
from chimbuko.ad.streams.forkserver import ForkServer


def warm_fork_server() -> ForkServer:
    """One whose readers load nothing."""
    load()
    return ForkServer()
