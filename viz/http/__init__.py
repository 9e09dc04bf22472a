"""Web server: access control, the application, events, and several processes on one port.

May import provenance.query, runtime.process, runtime.protocol, runtime.runs, viz.api, viz.api.endpoints,
viz.jobs and viz.live.
"""
