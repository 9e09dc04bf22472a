"""Where the analysis itself should run: what it costs, how it may be placed on a node, and what is best.

May import protocol.
It begins in ``advice.advise``. No I/O.
"""
