"""Alerts about severe calls: which deserve one, and where they go.

May import calls, protocol and provenance.store.
"""
