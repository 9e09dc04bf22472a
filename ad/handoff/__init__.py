"""What a stream's process and its agent share: mapped files, bells, and the values they are started with.

Imports ad.analysis and ad.calls.
"""
