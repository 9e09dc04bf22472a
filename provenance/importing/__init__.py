"""Runs that the C++ Chimbuko recorded, read as ours.

Imports provenance.store, provenance.write and provenance.export.
"""
