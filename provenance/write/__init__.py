"""The one writer of a run's provenance.

May import causes, causes.evidence, causes.incidents, causes.kinds, core.calls, core.kernels,
monitor.samples, observe.namespaces.analyses, observe.namespaces.service, provenance.alerts,
provenance.incidents, provenance.nodes, provenance.query, provenance.store, runtime.process,
runtime.protocol and runtime.runs.
Its process begins in ``__main__``.
"""
