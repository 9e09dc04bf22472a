"""Makes the corpus of broken traces: streams.tar.xz, and expected.json with what has to be counted of each.

Run: python -m tests.data.broken.make

Each case is one stream, ``tau-metrics-<case>-0.bp``. What is expected stands beside what is done to the
stream, in ``rows`` and ``files``; none of it is taken from a run.
"""

from __future__ import annotations

import json
import tarfile
import tempfile
from pathlib import Path

from tests.data.broken import files, rows
from tests.data.broken.cases import EXPECTED, MAKERS

FOLDER = Path(__file__).parent
MODULES = (rows, files)
"""Which register their cases."""


def main() -> None:
    """Write both files."""
    with tempfile.TemporaryDirectory() as scratch:
        for name, make in MAKERS.items():
            make(Path(scratch) / f"tau-metrics-{name}-0.bp")
        with tarfile.open(FOLDER / "streams.tar.xz", "w:xz") as packed:
            packed.add(scratch, ".", filter=_neutral)
    (FOLDER / "expected.json").write_text(json.dumps(EXPECTED, indent=1, ensure_ascii=False) + "\n")


def _neutral(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Nothing of the machine that made it."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return None if member.name.endswith("profiling.json") else member


if __name__ == "__main__":
    main()
