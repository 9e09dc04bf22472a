"""Reads what PerfFlowAspect writes: Chrome's events, of which the category is the module of a function."""

from __future__ import annotations

from chimbuko.capture.formats.readers import chrome


class Reader(chrome.Reader):
    """Reads one text, whose functions are distinguished by their modules."""

    has_modules = True
