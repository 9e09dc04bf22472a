"""Provenance records of selected calls: stack, window of neighbours, messages, counters, launches.

Imports ad.calls.
"""
