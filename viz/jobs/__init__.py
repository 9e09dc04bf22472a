"""Long questions: asked by a page, answered by a worker process, with progress, and cancellable.

May import core.calls, provenance.export, provenance.query, provenance.timeline, runtime.process,
runtime.protocol, runtime.runs, viz.api and viz.api.endpoints.
"""
