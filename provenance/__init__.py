"""Provenance: the store of a run's records, its one writer, and what is read, judged and exported from it.

May import nothing of ours.
"""
