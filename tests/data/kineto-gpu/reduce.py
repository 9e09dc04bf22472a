"""Reduces the trace of training.py to what the test needs: steps 110 to 365, without operators of tensors.

Run: python tests/data/kineto-gpu/reduce.py FOLDER    of what training.py has written
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

FIRST, LAST = 110, 365
KEPT = {
    "user_annotation", "gpu_user_annotation", "cuda_runtime", "cuda_driver", "kernel", "gpu_memcpy",
    "gpu_memset",
}  # fmt: skip
QUERIES = ("cudaStreamIsCapturing", "cudaGet", "cudaOccupancy", "cudaPeek", "cudaFunc")
"""A third of the calls of CUDA; they wait for nothing."""
ARGUMENTS = ("correlation", "device", "stream")


def main(folder: Path) -> None:
    trace = json.loads((folder / "gpu.pt.trace.json").read_text())
    steps = sorted(
        event["ts"]
        for event in trace["traceEvents"]
        if (event.get("cat"), event["name"]) == ("user_annotation", "step")
    )
    events = []
    for event in trace["traceEvents"]:
        is_kept = event.get("cat") in KEPT and not event["name"].startswith(QUERIES)
        if is_kept and steps[FIRST] <= event["ts"] < steps[LAST]:
            kept = {key: event[key] for key in ("ph", "cat", "name", "pid", "tid") if key in event}
            kept |= {key: round(event[key], 1) for key in ("ts", "dur") if key in event}
            arguments = {key: event.get("args", {}).get(key) for key in ARGUMENTS}
            events.append(kept | {"args": {key: one for key, one in arguments.items() if one is not None}})
    whole = {key: trace[key] for key in ("schemaVersion", "displayTimeUnit", "baseTimeNanoseconds")}
    text = json.dumps(whole | {"traceEvents": events}, separators=(",", ":"))
    (Path(__file__).parent / "gpu.pt.trace.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
