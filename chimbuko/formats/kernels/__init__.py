"""Compiled loops over the text of traces.

May import kernels.
"""
