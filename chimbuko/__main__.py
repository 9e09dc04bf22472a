"""``python -m chimbuko``."""

import os
import sys

if not sys.flags.safe_path:
    # Python looks first where it was called, and a program's files may be called as modules that we need, as
    # queue.py. The command ``chimbuko`` has this folder in that place.
    sys.path[0] = os.path.dirname(sys.executable)

from chimbuko.command import start

start()
