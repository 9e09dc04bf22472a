"""The life of runs in folders and stores: archived, transferred, pruned, relabelled, deleted.

May import calls, causes, causes.evidence, process, protocol, provenance.incidents, provenance.nodes,
provenance.query, provenance.store, provenance.write, runs and trace.
"""
