"""How a node is built: packages, memory, caches, cores and hardware threads.

May import monitor.procfs.
It begins in ``reading.read_topology``.
"""
