"""Hooks by which Python tells of the calls of a program, and what is made of them: the events of its threads.

May import nothing of ours.

A hook of Python 3.11 is a profiler, which each thread has and may lose; newer versions monitor all threads.
"""
