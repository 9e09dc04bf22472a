"""Verbs that run an analysis, a part of one, or a traced program.

May import annotations, cli.options, cli.output, follow, formats.streams, launcher, launcher.jobs,
launcher.nodes, launcher.outcome, launcher.services, monitor.messages, monitor.procfs, monitor.service,
monitor.topology, namespaces.sources, overhead, perfflow, process, protocol, provenance.query, recorder,
recorder.native, runs, trace, tracer and weaver.
"""
