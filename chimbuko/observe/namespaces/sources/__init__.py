"""What fills the standing namespaces by itself: the hardware of nodes, and the performance of ranks.

May import capture.formats.readers, observe.namespaces.analyses, observe.namespaces.client,
observe.namespaces.exchange, observe.namespaces.tree, runtime.process and runtime.protocol.
"""
