"""What is known of a run right now: totals, the map of all ranks, state and health.

May import core.calls, core.statistics, provenance.query, provenance.store, runtime.protocol and
runtime.runs.
"""
