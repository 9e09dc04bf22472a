"""What fills the standing namespaces by itself: the hardware of nodes, and the performance of ranks.

May import namespaces.analyses, namespaces.client, namespaces.exchange, namespaces.tree, protocol and trace.
"""
