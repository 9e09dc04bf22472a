"""Statistics that merge: moments, tables of functions with a merge rule for each column, learned models.

May import core.kernels.
"""
