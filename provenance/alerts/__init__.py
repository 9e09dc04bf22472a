"""Alerts about severe calls, what recurs, and deadlocks: which deserve one, and where they go.

May import calls, causes, protocol, provenance.incidents, provenance.query and provenance.store.
"""
