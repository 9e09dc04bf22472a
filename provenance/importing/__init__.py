"""Runs that the C++ Chimbuko recorded, read as ours.

May import core.calls, core.statistics, provenance.export, provenance.store, provenance.write,
runtime.protocol and runtime.runs.
"""
