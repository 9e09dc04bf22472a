"""Whether an application still has a stream open."""

from __future__ import annotations

import errno
import fcntl
import os
from typing import TYPE_CHECKING

from chimbuko.capture.follow.steps import DATA, StepIndex

if TYPE_CHECKING:
    from pathlib import Path


def has_writer(stream: Path | str) -> bool:
    """Whether some process has the data of a stream open for writing.

    The kernel knows, also of processes in other containers: it gives a read lease on a file only while
    nobody has it open for writing. Where a file system has no leases, a stream that was not closed in order
    is taken for one that is being written.
    """
    try:
        file = os.open(os.path.join(stream, DATA), os.O_RDONLY)
    except OSError:
        return False
    try:
        # Who opens the file for writing meanwhile would wait until the lease is given back.
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return False
    except OSError as error:
        if error.errno == errno.EAGAIN:
            return True
    finally:
        os.close(file)
    index = StepIndex(stream)
    index.read()
    return not index.has_ended
