"""Alerts about severe calls, nodes, what recurs or is published, and deadlocks: which deserve one.

May import calls, causes, protocol, provenance.incidents, provenance.query and provenance.store.
"""
