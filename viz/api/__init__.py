"""The HTTP API of one run, ``/api/v1``: each endpoint is a function with typed parameters and answer.

May import ad.detectors, protocol, provenance.manage, provenance.query, provenance.store, provenance.timeline,
runs, statistics and viz.live.
"""
