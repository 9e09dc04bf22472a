"""Runs that the C++ Chimbuko recorded, read as ours.

May import calls, protocol, provenance.export, provenance.store, provenance.write, runs and statistics.
"""
