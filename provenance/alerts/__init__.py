"""Alerts about severe calls, nodes, what recurs or is published, and deadlocks: which deserve one.

May import causes, causes.incidents, core.calls, provenance.incidents, provenance.query, provenance.store
and runtime.protocol.
"""
