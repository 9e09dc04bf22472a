"""What is known of a run right now: totals, the map of all ranks, state and health.

Imports protocol and provenance.query.
"""
