"""Call stacks and call paths of one stream, rebuilt from its ENTRY and EXIT events.

Imports trace, calls and kernels.
"""
