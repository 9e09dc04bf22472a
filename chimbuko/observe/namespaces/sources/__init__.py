"""Sources of the standing namespaces: hardware of nodes, performance of ranks, files of programs.

May import capture.formats.readers, observe.namespaces.analyses, observe.namespaces.client,
observe.namespaces.exchange, observe.namespaces.exchange, runtime.process and runtime.protocol.
"""
