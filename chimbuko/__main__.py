"""``python -m chimbuko``."""

from chimbuko.cli import start

start()
