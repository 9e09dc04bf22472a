"""Options that several verbs share, and the values that are made of them.

Imports every room but the verbs.
"""
