"""Alerts: the events of a run that deserve one, what each kind of alert says, and the sinks that take them.

May import causes, causes.incidents, core.calls, provenance.incidents, provenance.query, provenance.store
and runtime.protocol.
"""
