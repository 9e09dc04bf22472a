"""Parsers of /proc and of control groups: functions from bytes to values. No I/O.

May import nothing of ours.

The kernel's files can be cut short or gone while they are read, and the names in them are chosen by programs.
So no parser raises: what is damaged is ``None``, or a counter that is left out, and no counter is negative.
"""
