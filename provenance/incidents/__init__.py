"""Incidents of stored runs: found in what is stored, and what can be asked of them.

May import causes, causes.incidents, core.calls, core.statistics, monitor.report,
observe.namespaces.analyses, provenance.nodes, provenance.query, provenance.store and runtime.protocol.
"""
