"""A run as pandas DataFrames, for notebooks.

May import causes, core.calls, core.statistics, observe.namespaces.analyses, provenance.compare,
provenance.incidents, provenance.query, provenance.store, runtime.protocol and runtime.runs.
"""
