"""Processes of ours: how they are started, named, kept to cores, supervised, and ended first where memory is
short.

May import nothing of ours.
"""
