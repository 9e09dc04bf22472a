"""Compiled loops of the records.

May import ad.calls.kernels, calls, kernels and trace.
"""
