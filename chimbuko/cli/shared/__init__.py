"""Options that several verbs share, and tables and lists on standard output.

May import causes, core.calls, launcher, launcher.outcome, launcher.services, monitor.report,
observe.namespaces.exchange, plan, provenance.alerts, provenance.history, provenance.incidents,
provenance.manage, provenance.query, provenance.store, runtime.process, runtime.protocol, runtime.runs and
viz.http.
"""
