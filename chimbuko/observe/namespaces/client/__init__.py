"""Publishing of observations, with the ten verbs of SOMA's client.

May import observe.namespaces.analyses, observe.namespaces.exchange, observe.namespaces.exchange,
runtime.process and runtime.protocol.

``Client`` is what programs use; ``Outbox`` sends what they publish, from a thread of its own.
"""
