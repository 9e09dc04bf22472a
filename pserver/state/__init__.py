"""State of the parameter server, as values that merge. No I/O.

May import core.calls, core.kernels, core.statistics and runtime.protocol.
"""
