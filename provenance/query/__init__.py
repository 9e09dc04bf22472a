"""What can be asked of the provenance of a run.

Imports provenance.store.
"""
