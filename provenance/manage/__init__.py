"""The life of runs in folders and stores: archived, transferred, pruned, relabelled, explained, deleted.

May import causes, causes.evidence, process, provenance.query, provenance.store, provenance.write, runs and
trace.
"""
