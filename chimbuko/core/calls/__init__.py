"""Recorded calls as values: a record, arrays of records, raw rows of a flight recorder, call paths.

May import core.kernels.
"""
