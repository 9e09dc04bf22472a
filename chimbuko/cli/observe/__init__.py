"""Verbs about whole workflows: what their programs publish, their tasks, what an analysis costs them, and
where it should run.

May import cli.execute, cli.shared, observe.namespaces.analyses, observe.namespaces.client,
observe.namespaces.exchange, observe.namespaces.service, observe.workflow, plan, provenance.query,
runtime.process, runtime.protocol and runtime.runs.
"""
