"""What nodes did beside the calls of a run, as it is stored.

May import calls, causes.evidence, insitu.placing, monitor.samples, process, protocol,
provenance.query, provenance.store and runs.
"""
