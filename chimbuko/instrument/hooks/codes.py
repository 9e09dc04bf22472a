"""Codes that stand among those of calls in the events of a thread, and a key of its metadata."""

from __future__ import annotations

SWITCHED = -1
"""Code of an event that is no call: ``SWITCHED - lane`` says that what follows is of that lane."""
FOUND = -(1 << 40)
"""Code of another one: ``FOUND - n`` says that the hook is there again, after a time without it. The ``n``
rows behind it have the codes of the calls that are open then, the outermost first.
"""

NOT_RECORDED, LEFT_OUT_FUNCTIONS = "Not Recorded", "Functions Left Out"
"""Keys of metadata, those of ``core.traceschema``, which would load numpy in each process of a program."""
CALL_COUNTS, LEFT_OUT, UNCOUNTED = "Calls Counted", "left out on purpose", "functions not always counted"
"""A further key, and reasons of what is counted, those of ``core.sourcecensus``."""
