"""What changed from one run to another. Pure but for the reading of profiles.

May import core.calls, core.statistics, observe.namespaces.analyses, provenance.incidents,
provenance.query and runtime.protocol.
"""
