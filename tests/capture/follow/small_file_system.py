"""Run under ``unshare --mount``: a guard on a file system of 8 MB, and a writer that nobody reads.

``python -m tests.capture.follow.small_file_system FOLDER LOG`` prints what was written, and what was dropped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from chimbuko.capture.follow.guard import Options
from chimbuko.capture.follow.holes import FirstStep
from chimbuko.capture.follow.limits import Limits
from chimbuko.capture.follow.presence import guard_of
from chimbuko.capture.follow.starter import GuardStarter
from tests.capture.follow.streams import STEP_BYTES, opened, wait_until, write_step

SIZE = 8 << 20
RESERVE = 3 << 20
LEAST = 1 << 20
STEPS = 3 * SIZE // STEP_BYTES


def main(mount: Path, log: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", str(mount)], check=True)
    folder = mount / "streams"
    folder.mkdir()

    def free() -> int:
        system = os.statvfs(mount)
        return system.f_bavail * system.f_frsize

    paths = [folder / f"tau-metrics-program-{rank}.bp" for rank in range(2)]
    writers = [opened(path) for path in paths]
    starter = GuardStarter(Options(str(folder), Limits(1 << 40, 1 << 40, RESERVE)), log)
    step = 0
    while free() > LEAST:
        write_step(writers[step % 2], step // 2)
        step += 1
    # The guard comes late: the file system is full to the last page.
    with suppress(OSError), (mount / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))
    free_before = free()
    starter.ensure()
    starter.wait()
    while step < STEPS:
        # It may be too busy a machine for a guard: this is about what it does, not how soon.
        wait_until(lambda: free() > LEAST)
        write_step(writers[step % 2], step // 2)
        step += 1
    wait_until(lambda: free() >= RESERVE)
    facts = {
        "free_before": free_before,
        "written": step * STEP_BYTES,
        "free": free(),
        "first_steps": [FirstStep(path).get() for path in paths],
        "guarded": guard_of(folder) is not None,
    }
    for writer in writers:
        writer.close()
    facts["ended"] = starter.stop(60.0)
    facts["removed"] = not folder.exists()
    facts["log"] = log.read_text().splitlines()
    print(json.dumps(facts))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
