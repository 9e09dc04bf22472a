"""Provenance records of selected calls: stack, window of neighbours, messages, counters, launches.

May import ad.calls, ad.calls.kernels, ad.records.kernels, calls, statistics and trace.
"""
