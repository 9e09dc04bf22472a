"""Followed files: an application's BP5 streams on node-local memory, read behind the writer and given back.

May import process, runs and trace.

What the guard of a folder uses, in ``chimbuko.follow.guard``, loads neither numpy nor ADIOS2: its process is
to stay small.
"""
