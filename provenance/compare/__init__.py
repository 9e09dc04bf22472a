"""Comparisons of runs: what changed from one to another, and how sure that is. Pure but for reading profiles.

May import causes, core.calls, core.statistics, observe.namespaces.analyses, provenance.incidents,
provenance.query and runtime.protocol.
"""
