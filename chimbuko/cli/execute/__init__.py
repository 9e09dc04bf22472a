"""Verbs that run an analysis, a part of one, or a traced program.

May import cli.options, cli.output, follow, launcher, launcher.jobs, launcher.nodes, launcher.outcome,
monitor.findings, monitor.procfs, monitor.report, monitor.sampling, monitor.topology, process, protocol,
provenance.query, recorder, recorder.native, runs, trace and tracer.
"""
