"""Alerts about severe calls, what recurs or is published, and deadlocks: which deserve one, where they go.

May import calls, causes, protocol, provenance.incidents, provenance.query and provenance.store.
"""
