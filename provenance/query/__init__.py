"""Queries of the provenance of a run: calls, steps, models and statistics.

May import causes, core.calls, core.statistics, provenance.store, runtime.protocol and runtime.runs.
"""
