"""Store: its tables, how databases are opened, the encoding of a call's details, and SQL for users.

May import core.calls and provenance.store.kernels.
"""
