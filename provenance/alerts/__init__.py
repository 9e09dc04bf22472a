"""Alerts about severe calls: which deserve one, and where they go.

Imports provenance.store and protocol.
"""
