"""What the parameter server knows, as values that merge. No I/O.

May import calls, kernels, protocol, pserver.kernels, pserver.telemetry and statistics.
"""
