"""Finders that notice when a Python program imports PyTorch, or another package that computes on GPUs.

They load nothing before that.
"""

from __future__ import annotations

from chimbuko.instrument.pythonmpi.importhook import WatchedImport
from chimbuko.instrument.tracer import session

ON_GPUS = ("cupy", "numba.cuda", "pycuda")
"""Packages that are there for nothing but CUDA."""


def watch_imports() -> None:
    """Notice these imports from now on, in this process and in those that it forks before them."""
    for package in ON_GPUS:
        GpuImport(package).install()
    TorchImport().install()


class TorchImport(WatchedImport):
    """Finder that has PyTorch observed once it is loaded."""

    def __init__(self) -> None:
        super().__init__("torch")

    def after(self) -> None:
        """Load the observer."""
        if session.active is not None:
            from chimbuko.instrument.training.observing import observe

            observe(session.active)


class GpuImport(WatchedImport):
    """Finder that has the recorder loaded before a package that uses GPUs."""

    def before(self, origin: str) -> None:
        """Load the recorder."""
        if session.active is not None:
            from chimbuko.instrument.training.observing import record_native

            record_native(session.active)
