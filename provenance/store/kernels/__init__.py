"""Compiled encoding of a call's details.

May import kernels.
"""
