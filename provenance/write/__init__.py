"""Writes a run's provenance into the store, finds its incidents while it goes on, and names what is stored.

May import causes, causes.evidence, causes.incidents, core.calls, core.kernels, monitor.sampling,
observe.namespaces.analyses, provenance.incidents, provenance.query, provenance.store, runtime.protocol and
runtime.runs.
"""
