"""Verbs that observe workflows.

May import cli.options, cli.output, namespaces.analyses, namespaces.client, namespaces.exchange,
namespaces.relay, namespaces.service, namespaces.texts, namespaces.tree, process, protocol, workflow.leading,
workflow.records and workflow.tasks.
"""
