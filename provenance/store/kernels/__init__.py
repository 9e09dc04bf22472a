"""Kernels that encode a call's details.

May import core.calls and core.kernels.
"""
