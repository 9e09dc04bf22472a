"""The services of one run, on one node: broker, parameter server, store's writer and dashboard.

May import core.calls, core.statistics, launcher.outcome, observe.namespaces.exchange, provenance.service,
provenance.store, provenance.write, pserver, pserver.state, runtime.process, runtime.protocol, runtime.runs
and viz.http.
"""
