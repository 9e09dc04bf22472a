"""Calls of one stream: stacks rebuilt from ENTRY and EXIT events, and records with neighbours and messages.

May import ad.kernels, core.calls, core.kernels and core.statistics.
"""
