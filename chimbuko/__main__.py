"""``python -m chimbuko``."""

from chimbuko.cli import main

main()
