"""What is known of a run right now: totals, the map of all ranks, state and health.

May import calls, protocol, provenance.query, provenance.store, runs and statistics.
"""
