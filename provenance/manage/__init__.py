"""The life of runs in folders and stores: archived, transferred, pruned, relabelled, deleted.

May import calls, process, provenance.query, provenance.store, provenance.write, runs and trace.
"""
