"""Compiled loops of the records.

Imports ad.calls.kernels.
"""
