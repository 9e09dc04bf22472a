"""Timelines of ranks, from what the store keeps or from a recorded trace.

Imports provenance.query.
"""
