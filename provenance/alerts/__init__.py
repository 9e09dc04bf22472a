"""Alerts about severe calls and what recurs: which deserve one, and where they go.

May import calls, causes, protocol, provenance.incidents and provenance.store.
"""
