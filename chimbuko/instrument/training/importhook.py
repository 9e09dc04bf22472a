"""Finder that notices when a Python program has imported PyTorch. It loads nothing before that."""

from __future__ import annotations

from chimbuko.instrument.pythonmpi.importhook import WatchedImport
from chimbuko.instrument.tracer import session


class TorchImport(WatchedImport):
    """Finder that has PyTorch observed once it is loaded."""

    def __init__(self) -> None:
        super().__init__("torch")

    def after(self) -> None:
        """Load the observer."""
        if session.active is not None:
            from chimbuko.instrument.training.observing import observe

            observe(session.active)
