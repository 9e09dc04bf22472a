"""Verbs that run an analysis, a part of one, or a traced program.

May import capture.follow, capture.formats, capture.trace, cli.shared, instrument.annotations,
instrument.extensions, instrument.recorder, instrument.tracer, instrument.weaver, launcher, launcher.jobs,
launcher.outcome, launcher.services, monitor.procfs, monitor.report, monitor.service,
observe.namespaces.client, plan, provenance.query, runtime.process, runtime.protocol and runtime.runs.
"""
