"""Compiled encoding of a call's details.

May import calls and kernels.
"""
