"""What programs and workflows report of themselves: namespaces and tasks.

May import nothing of ours.
"""
