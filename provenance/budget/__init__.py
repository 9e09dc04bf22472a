"""Budget of a run: where all its time went, and what of it was lost.

May import causes, causes.kinds, core.calls, provenance.incidents, provenance.nodes, provenance.query and
provenance.store.
"""
