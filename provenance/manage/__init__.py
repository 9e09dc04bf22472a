"""The life of runs in folders and stores: archived, transferred, pruned, relabelled, deleted.

May import process, provenance.query, provenance.store, provenance.write, runs and trace.
"""
