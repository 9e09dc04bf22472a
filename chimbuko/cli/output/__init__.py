"""Tables and lists on standard output.

May import launcher.outcome, process, provenance.manage, provenance.store and runs.
"""
