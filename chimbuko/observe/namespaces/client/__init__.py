"""Publishes observations: SOMA's ten verbs.

May import observe.namespaces.analyses, observe.namespaces.exchange, observe.namespaces.tree,
runtime.process and runtime.protocol.

``Client`` is what programs use; ``Outbox`` sends what they publish, from a thread of its own.
"""
