"""Verbs that show what a run has found.

May import calls, cli.options, cli.output, launcher.outcome, launcher.services, process, protocol,
provenance.compare, provenance.export, provenance.incidents, provenance.nodes, provenance.query,
provenance.store, runs, trace, viz.http and viz.jobs.
"""
