"""Writer of a run's provenance, of which there is one process.

May import causes, causes.evidence, causes.incidents, causes.kinds, core.calls, core.kernels,
monitor.samples, observe.namespaces.analyses, observe.namespaces.service, provenance.alerts,
provenance.incidents, provenance.nodes, provenance.query, provenance.store, runtime.process,
runtime.protocol and runtime.runs.
Its process begins in ``__main__``.
"""
