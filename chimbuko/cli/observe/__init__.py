"""Verbs that observe workflows.

May import cli.shared, observe.namespaces.analyses, observe.namespaces.client,
observe.namespaces.exchange, observe.namespaces.service, observe.namespaces.sources,
observe.namespaces.tree, observe.workflow, provenance.nodes, runtime.process and runtime.protocol.
"""
