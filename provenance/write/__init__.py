"""The one writer of a run's provenance.

May import calls, causes, causes.evidence, kernels, monitor.samples, namespaces.metrics,
namespaces.watching, process, protocol, provenance.alerts,
provenance.incidents, provenance.nodes, provenance.query, provenance.store and runs.
Its process begins in ``__main__``.
"""
