"""The one writer of a run's provenance.

Imports provenance.store and provenance.alerts.
Its process begins in ``__main__``.
"""
