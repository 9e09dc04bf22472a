"""Management of stored runs: listed, archived, transferred, pruned, deleted.

May import capture.trace, causes, provenance.query, provenance.store, provenance.write, runtime.process
and runtime.runs.
"""
