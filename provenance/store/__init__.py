"""The database: its tables, its engines, the encoding of a call's details, and SQL for readers.

May import core.calls and provenance.store.kernels.
"""
