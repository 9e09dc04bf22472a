"""Reduces traces of PyTorch's profiler to what the tests need of them: tensor operations are left out.

Run: python tests/data/kineto/reduce.py FOLDER    of what training.py has written
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

LEFT_OUT = ("aten::", "detach", "autograd::engine::evaluate_function: ", "PyTorch Profiler")
"""Nine of ten events; the delays are not in them."""
KEPT = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id", "s")


def main(folder: Path) -> None:
    here = Path(__file__).parent
    truth = []
    for path in sorted(folder.glob("rank*.pt.trace.json")):
        trace = json.loads(path.read_text())
        events = [
            {key: event[key] for key in KEPT if key in event}
            for event in trace["traceEvents"]
            if not event["name"].startswith(LEFT_OUT) and event.get("cat") != "fwdbwd"
        ]
        kept = trace | {"traceEvents": events, "host_name": "node", "traceName": path.name}
        packed = gzip.compress(json.dumps(kept, indent=1).encode(), 9, mtime=0)
        (here / f"{path.name}.gz").write_bytes(packed)
        truth += json.loads((folder / f"truth-{path.name[4]}.json").read_text())
    (here / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
