"""How a process of ours is started, named, supervised, and ended first where memory is short.

Imports nothing of ours but errors.
"""
