"""Tables and lists on standard output.

May import launcher.outcome, provenance.manage, provenance.store and runs.
"""
