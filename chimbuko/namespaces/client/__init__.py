"""Publishes observations: SOMA's ten verbs.

May import namespaces.analyses, namespaces.exchange, namespaces.texts, namespaces.tree, process
and protocol.

``Client`` is what programs use; ``Outbox`` sends what they publish, from a thread of its own.
"""
