"""Alert about a run."""

from __future__ import annotations

import msgspec


class Alert(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Envelope that all alerts have; each kind adds its own fields."""

    run: str
    """Id of the run."""
    sentence: str
    """Sentence that says what happened; empty if it is not known yet."""
    dashboard: str = ""
    """Address of the page about it, without the token; empty if there is no dashboard."""

    @property
    def about(self) -> str:
        """Return the id of the incident or finding, whose mark counts; empty if there is none, or not yet."""
        return ""
