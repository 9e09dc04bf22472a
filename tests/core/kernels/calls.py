"""Types with which kernels are called, as ``signatures.json`` has them.

Run: python -m tests.core.kernels.calls    writes the file anew
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from chimbuko.core.kernels.signatures import SIGNATURES
from tests.places import ROOT

MANY = dict(enumerate(range(100)))
"""Numbers of functions and counters, in a record and in the store."""
RECORD = "from tests.core.kernels.calls import record; record()"


def record() -> None:
    """Call all kernels, and print the types of their arguments."""
    from chimbuko.capture.formats.readers.jsontext import JsonText
    from chimbuko.core.calls.recordarrays import PackedRecords, pack
    from chimbuko.core.kernels.declare import recorded
    from chimbuko.provenance.store.encode import store_records
    from tests.causes import flagged
    from tests.core.kernels import agentcalls, servercalls

    agentcalls.call_kernels()
    servercalls.call_kernels()
    store_records(PackedRecords(), {}, {})
    store_records(pack([flagged.record("main", 0, 0.0, 1.0)] * 2), MANY, MANY)
    JsonText().feed(b'{"a": 1, "traceEvents": [{}')
    rows = (f"{json.dumps(name)}: {json.dumps(types)}" for name, types in sorted(recorded.items()))
    print("{\n" + ",\n".join(rows) + "\n}")


def called() -> str:
    """Return what the file should hold."""
    environment = {**os.environ, "CHIMBUKO_KERNELS_AS": "recorded"}
    words: list[Any] = [sys.executable, "-c", RECORD]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


if __name__ == "__main__":
    SIGNATURES.write_text(called())
