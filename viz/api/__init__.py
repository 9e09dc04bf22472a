"""HTTP API of one run, ``/api/v1``: each endpoint is a function with typed parameters and a typed
answer.

May import ad.detectors, core.statistics, provenance.manage, provenance.query, provenance.store,
provenance.timeline, runtime.protocol, runtime.runs and viz.live.
"""
