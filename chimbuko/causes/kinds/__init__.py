"""The causes that are looked for, each a module; ``registry`` has their order.

May import calls, causes.evidence and causes.nodekinds.
"""
