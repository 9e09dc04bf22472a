"""What the parameter server knows, as values that merge. No I/O.

Imports statistics, protocol and pserver.kernels.
"""
