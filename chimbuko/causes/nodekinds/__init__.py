"""The causes that lie in the node, each a module; each asks what its samples say of a call's thread.

May import causes.evidence.
"""
