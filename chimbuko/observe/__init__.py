"""Observations that programs and workflows publish of themselves: namespaces, and states of tasks.

May import nothing of ours.
"""
