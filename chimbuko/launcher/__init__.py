"""Starts, watches and ends the processes of a run; the command line is one of its callers.

May import ad.detectors, ad.handoff, calls, follow, follow.guard, process, protocol, provenance.manage,
provenance.query, provenance.store, provenance.write, runs, shield, statistics, symbols, trace, viz.http and
viz.jobs.
Its process begins in ``controller``.
"""
