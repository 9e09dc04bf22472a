"""Process of a run's one writer: it takes what comes at the broker into the store, and alerts people.

May import core.calls, monitor.sampling, observe.namespaces.service, provenance.alerts,
provenance.incidents, provenance.query, provenance.store, provenance.write, runtime.process,
runtime.protocol and runtime.runs.
Its process begins in ``__main__``.
"""
