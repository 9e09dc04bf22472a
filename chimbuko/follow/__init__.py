"""Followed files: an application's BP5 streams on node-local memory, read behind the writer and given back.

May import ``chimbuko.errors``, ``chimbuko.processes`` and ``chimbuko.trace``. The guard (``guard.py``) is a
process of its own, so small that nothing here but ``guard`` itself may load numpy or ADIOS2 for it.
"""
