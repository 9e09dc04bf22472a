"""Long questions: asked by a page, answered by a worker process, with progress and an end before the end.

May import process, protocol, provenance.query, runs, viz.api and viz.jobs.tasks.
"""
