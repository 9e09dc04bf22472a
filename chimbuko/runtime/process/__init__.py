"""How a process of ours is started, named, kept to cores, supervised, and ended first where memory is short.

May import nothing of ours.
"""
