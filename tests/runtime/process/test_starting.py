"""Processes that are forks of the one that starts them: who loads what."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

STARTS = """
import json, sys
from pathlib import Path
from chimbuko.runtime.process import starting
from chimbuko.core.errors import ServiceError
from chimbuko.runtime.process.service import Service

folder = Path(sys.argv[1])
try:
    service = Service("made", "made_service", [], {}, folder, start=getattr(starting, sys.argv[2]))
    (folder / "started").touch()
    is_loaded = "made_service" in sys.modules
    print(json.dumps([service.wait_ready()["answer"], is_loaded]))
    service.stop(10.0)
except ServiceError as error:
    print(json.dumps([str(error), False]))
"""
"""Prints what the service said, and whether its starter has loaded its module."""


def started(folder: Path, text: str, start: str) -> tuple[str, bool]:
    """What ``STARTS`` reports of a service whose module has this text."""
    (folder / "made_service.py").write_text(text)
    words = [sys.executable, "-c", f"import sys; sys.path.insert(0, sys.argv[1])\n{STARTS}", folder, start]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    answer, is_loaded = json.loads(done.stdout)
    return answer, is_loaded


@pytest.mark.parametrize(("start", "waits"), [("fork", True), ("fork_then_load", False)])
def test_who_starts_a_fork_waits_only_for_what_it_loads_itself(
    tmp_path: Path, start: str, waits: bool
) -> None:
    # A starter that waits for what only it can bring about would wait for ever.
    goes_on = (
        "" if waits else f"while not pathlib.Path({str(tmp_path / 'started')!r}).exists(): time.sleep(0.01)"
    )
    text = f"import pathlib, time\n{goes_on}\n"
    text += "from chimbuko.runtime.process.lifetime import say_ready\n"
    text += "def load(): pass\ndef main(): say_ready(answer='here')"
    assert started(tmp_path, text, start) == ("here", waits)


@pytest.mark.parametrize("start", ["fork", "fork_then_load"])
def test_what_cannot_be_loaded_is_reported(tmp_path: Path, start: str) -> None:
    answer, _ = started(tmp_path, "raise MemoryError('no room')", start)
    assert "made_service cannot be loaded (no room)" in answer
