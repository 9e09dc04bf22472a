"""In workers of dashboards under test a run's description is opened when its gate is: ``asking.Gate``."""

from __future__ import annotations

import os
import time
from typing import Any

CLOSED = "closed"
_open = os.open


def _open_at_gate(path: Any, *rest: Any, **named: Any) -> int:
    folder, name = os.path.split(path)
    while name == "run.json" and os.path.exists(os.path.join(folder, CLOSED)):
        time.sleep(0.02)
    return _open(path, *rest, **named)


os.open = _open_at_gate
