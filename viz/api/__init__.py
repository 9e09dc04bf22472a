"""HTTP API of one run, ``/api/v1``: endpoints are functions with typed parameters and answers.

May import ad.detectors, causes, core.statistics, provenance.manage, provenance.query,
provenance.store, provenance.timeline, runtime.protocol, runtime.runs and viz.live.
"""
