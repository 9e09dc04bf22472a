"""A run as pandas DataFrames, for notebooks.

May import calls, causes, protocol, provenance.compare, provenance.incidents, provenance.query,
provenance.store, runs and statistics.
"""
