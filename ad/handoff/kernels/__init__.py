"""Compiled loops of the shared files.

May import ad.calls.kernels, kernels and trace.
"""
