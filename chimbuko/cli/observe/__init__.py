"""Verbs that observe workflows.

May import cli.options, cli.output, namespaces.analyses, namespaces.client, namespaces.exchange,
namespaces.relay, namespaces.service, namespaces.texts, namespaces.tree, protocol, workflow.leading,
workflow.records and workflow.tasks.
"""
