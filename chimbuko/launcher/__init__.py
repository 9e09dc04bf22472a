"""Starts, watches and ends the processes of a run; the command line is one of its callers.

May import ad.handoff, follow, follow.guard, launcher.outcome, process, protocol, provenance.store,
provenance.write, runs, shield, trace, viz.http and viz.jobs.
Its process begins in ``controller``.
"""
