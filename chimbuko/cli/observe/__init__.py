"""Verbs that observe workflows.

May import namespaces.client, namespaces.exchange, namespaces.relay, namespaces.service, namespaces.texts,
namespaces.tree, protocol, workflow.leading, workflow.records and workflow.tasks.
"""
