"""The database: its tables, its engines, the encoding of a call's details, and SQL for readers.

Imports calls and kernels.
"""
