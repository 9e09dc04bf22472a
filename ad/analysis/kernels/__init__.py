"""Compiled loops of the analysis.

Imports ad.calls.kernels.
"""
