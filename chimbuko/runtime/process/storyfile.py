"""Files with the stories of state machines (``chimbuko.core.statemachine``), one for each service, beside its
log.

A service writes its story when it ends, and when it notices that something which it needs has failed.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from chimbuko.core.files import contents, write_atomically
from chimbuko.core.statemachine import Story
from chimbuko.runtime.process.lifetime import one_of_several

STORY_VARIABLE = "CHIMBUKO_STORY"
"""Environment variable of a process of ours: the file for its story."""
ENDING = ".story"


def write_story(story: Story) -> None:
    """Write this service's story, whose times are those of the monotonic clock, in place of an earlier one;
    do nothing where it was given no file, or none can be written.
    """
    given = os.environ.get(STORY_VARIABLE)
    if not given:
        return
    place = Path(given)
    if name := one_of_several.get():
        place = place.with_name(f"{name}{ENDING}")
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
    lines = [*story.lines(), f"{time.monotonic():12.3f} s  written at {now}"]
    with suppress(OSError):
        write_atomically(place, "".join(f"{line}\n" for line in lines).encode())


def last_steps(logs: Path, most: int) -> dict[str, list[str]]:
    """Return the last lines of each story in a folder by the name of its service, ``most`` at most; a file
    that cannot be read is left out.
    """
    found = {}
    for path in sorted(logs.glob(f"*{ENDING}")):
        with suppress(OSError):
            found[path.stem] = contents(path).decode(errors="replace").splitlines()[-most:]
    return found
