"""Compiled loops of the call stacks.

May import kernels and trace.
"""
