"""Sources of the standing namespaces: the hardware of nodes, the performance of ranks, and programs
that write files.

May import capture.formats.readers, observe.namespaces.analyses, observe.namespaces.client,
observe.namespaces.exchange, observe.namespaces.tree, runtime.process and runtime.protocol.
"""
