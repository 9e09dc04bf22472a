"""What the summary says of the call data where nothing of it is known to be lost."""

from __future__ import annotations

import re

_NO_LOSS = re.compile(r"^Call data: (?:complete|no loss known)", re.MULTILINE)


def no_loss(output: str) -> bool:
    """Return whether a summary knows of no loss; of TAU, which counts no calls, it never knows more."""
    return _NO_LOSS.search(output) is not None
