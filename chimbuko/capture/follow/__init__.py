"""Followed files: an application's BP5 streams on node-local memory, read behind the writer and given back.

May import capture.trace, runtime.process and runtime.runs.

The modules that the guard of a folder uses load neither numpy nor ADIOS2: its process is to stay small.
"""
