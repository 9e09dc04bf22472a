"""Chimbuko: in-situ performance anomaly detection for HPC workflows.

PYTEST_DONT_REWRITE: a recorded pytest finds this package loaded, and must not warn of it.
"""

from __future__ import annotations

# What is loaded before a command has begun, Ctrl-C interrupts: not typing, too.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from chimbuko.provenance.export.frames import open_frames as open

__version__ = "1.0.0"
__all__ = ["__version__", "open"]


def __getattr__(name: str) -> Any:
    """``open``, which takes pandas and a database: it is loaded when it is first used."""
    if name != "open":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from chimbuko.provenance.export.frames import open_frames
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        from chimbuko.core.errors import ConfigError

        raise ConfigError(
            "chimbuko.open needs pandas; install it with: pip install 'chimbuko[notebook]'"
        ) from None
    return open_frames
