"""Incidents of stored runs: found in what is stored, and what can be asked of them.

May import causes, causes.evidence, protocol, provenance.query, provenance.store and statistics.
"""
