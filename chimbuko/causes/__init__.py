"""Why calls were slow: what incidents are made of, and how their figures are worded. No I/O.

May import nothing of ours.
"""
