"""``python -m chimbuko``."""

from chimbuko.command import start

start()
