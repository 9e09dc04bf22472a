"""Tables and lists on standard output.

May import launcher, provenance.manage, provenance.store and runs.
"""
