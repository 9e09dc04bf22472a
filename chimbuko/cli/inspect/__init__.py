"""Verbs that show what a run has found.

May import causes, cli.shared, core.calls, core.statistics, launcher.outcome, launcher.services,
provenance.compare, provenance.explain, provenance.export, provenance.history, provenance.incidents,
provenance.query, provenance.store, runtime.process, runtime.protocol, runtime.runs, viz.http and viz.jobs.
"""
