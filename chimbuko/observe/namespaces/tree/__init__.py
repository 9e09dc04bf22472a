"""Trees of observations as plain values: typed leaves under hierarchical keys, changes, and encoding.

May import nothing of ours.

``Tree`` holds leaves, a ``Change`` is what became of some of them, ``wire`` writes changes as bytes. No I/O.
"""
