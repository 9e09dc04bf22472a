"""Options that several verbs share, and the values that are made of them.

May import capture.follow, capture.trace, launcher, launcher.services, observe.namespaces.exchange,
provenance.alerts, provenance.nodes, provenance.query, provenance.store, runtime.protocol, runtime.runs
and viz.http.
"""
