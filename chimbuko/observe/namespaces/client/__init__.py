"""Publishing of observations, with the ten verbs of SOMA's client, and what is published without a program's
doing: hardware of nodes, performance of ranks, files of programs.

May import capture.formats.readers, observe.namespaces.analyses, observe.namespaces.exchange,
runtime.process and runtime.protocol.

``Client`` is what programs use; ``Outbox`` sends what they publish, from a thread of its own.
"""
