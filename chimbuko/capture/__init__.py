"""Ways of a trace to the analysis: streams, followed files, other tools' formats, names of addresses.

May import nothing of ours.
"""
