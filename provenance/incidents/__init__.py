"""Incidents of stored runs: found in what is stored, and what can be asked of them.

May import calls, causes, causes.evidence, monitor.findings, namespaces.metrics, protocol, provenance.nodes,
provenance.query, provenance.store and statistics.
"""
