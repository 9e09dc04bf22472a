"""Fork servers as agents have them: all that readers need is loaded before."""

from __future__ import annotations

from chimbuko.ad.streamprocess.forkserver import ForkServer
from chimbuko.ad.streamprocess.kernelwarmup import warm_kernels
from chimbuko.runtime.process.starting import uncollected


def warm_fork_server() -> ForkServer:
    """One whose readers load nothing."""
    with uncollected():
        warm_kernels()
    return ForkServer()
