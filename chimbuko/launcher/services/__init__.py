"""The services of one run, on one node: broker, parameter server, store's writer and dashboard.

May import launcher.outcome, namespaces.exchange, process, protocol, provenance.store,
provenance.write, pserver.state, runs, statistics and viz.http.
"""
