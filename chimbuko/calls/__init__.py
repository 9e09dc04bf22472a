"""Recorded calls as values: a record, arrays of records, raw rows of a flight recorder, call paths.

Imports trace and kernels.
"""
