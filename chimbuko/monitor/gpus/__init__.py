"""GPUs of a node: what their makers' libraries say of them, as values.

May import nothing of ours.
"""
