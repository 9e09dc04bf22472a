"""The life of runs in folders and stores: archived, transferred, pruned, relabelled, deleted.

May import capture.trace, causes, causes.evidence, causes.incidents, core.calls, provenance.incidents,
provenance.nodes, provenance.query, provenance.store, provenance.write, runtime.process, runtime.protocol
and runtime.runs.
"""
