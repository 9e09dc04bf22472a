"""Alerts: the events of a run that deserve one, what each kind of alert says, and the sinks that take them.

May import causes, causes.incidents, provenance.incidents, provenance.query, provenance.write
and runtime.protocol.
"""
