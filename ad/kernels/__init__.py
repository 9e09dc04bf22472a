"""Compiled loops of the agent: call stacks, labels, statistics, windows and shared files.

May import core.calls and core.kernels.
"""
