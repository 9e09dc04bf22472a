"""Timelines of ranks, from what the store keeps or from a recorded trace.

May import calls, provenance.query, provenance.store, runs and trace.
"""
