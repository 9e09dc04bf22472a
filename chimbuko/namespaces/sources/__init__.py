"""What fills the standing namespaces by itself: the hardware of nodes, and the performance of ranks.

May import namespaces.client, namespaces.exchange and process.
"""
