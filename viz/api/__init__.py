"""The HTTP API of one run, ``/api/v1``: each endpoint is a function with typed parameters and answer.

May import provenance.query, provenance.timeline and viz.live.
"""
