"""Observations that programs, nodes and workflows publish of themselves: namespaces, and tasks of
workflows.

May import nothing of ours.
"""
