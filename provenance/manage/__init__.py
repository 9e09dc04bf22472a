"""The life of runs in folders and stores: archived, transferred, pruned, relabelled, deleted.

Imports provenance.query and provenance.write.
"""
