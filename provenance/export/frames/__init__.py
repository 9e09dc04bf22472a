"""A run as pandas DataFrames, for notebooks.

May import calls, causes, namespaces.metrics, protocol, provenance.compare, provenance.incidents,
provenance.query, provenance.store, runs and statistics.
"""
