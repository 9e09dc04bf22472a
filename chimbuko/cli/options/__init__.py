"""Options that several verbs share, and the values that are made of them.

May import follow, follow.guard, launcher, launcher.services, namespaces.exchange, protocol,
provenance.alerts, provenance.nodes, provenance.query, provenance.store, runs, trace and viz.http.
"""
