"""Provenance records of selected calls: stack, window of neighbours, messages, counters, launches.

May import ad.calls, ad.kernels, core.calls and core.statistics.
"""
