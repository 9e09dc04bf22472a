"""Compiled loops of the call stacks.

Imports kernels and trace.
"""
