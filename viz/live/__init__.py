"""Live state of a run: totals, the map of all ranks, state and health.

May import core.calls, core.statistics, provenance.query, provenance.store, runtime.process,
runtime.protocol and runtime.runs.
It begins in ``feed.Feed``, whose core is ``feedcore.FeedCore``.
"""
