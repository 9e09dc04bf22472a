"""Timelines of ranks, from what the store keeps or from a recorded trace.

May import capture.trace, core.calls, provenance.query, provenance.store and runtime.runs.
"""
