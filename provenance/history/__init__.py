"""Memory over runs: runs of the same thing form a series, which knows what changed, when, and how sure that
is.

May import causes.incidents, core.calls, core.statistics, provenance.incidents, provenance.query,
provenance.store and runtime.runs.
"""
