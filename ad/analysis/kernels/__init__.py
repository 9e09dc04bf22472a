"""Compiled loops of the analysis.

May import ad.calls.kernels, kernels and trace.
"""
