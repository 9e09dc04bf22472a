"""Verbs that observe workflows.

May import namespaces.client, namespaces.exchange, namespaces.service, namespaces.texts, namespaces.tree and
protocol.
"""
