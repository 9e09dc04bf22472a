"""Call stacks and call paths of one stream, rebuilt from its ENTRY and EXIT events.

May import ad.kernels, core.calls and core.kernels.
"""
