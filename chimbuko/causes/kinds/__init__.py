"""The causes that are looked for, each a module; ``registry`` has their order.

May import causes.evidence, causes.nodekinds and core.calls.
"""
