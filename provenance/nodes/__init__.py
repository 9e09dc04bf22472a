"""What nodes did beside the calls of a run, as it is stored.

May import calls, causes, causes.evidence, insitu.placing, monitor.procfs, monitor.samples, process, protocol,
provenance.query, provenance.store and runs.
"""
