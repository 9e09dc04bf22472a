"""Long questions: asked by a page, answered by a worker process, with progress and an end before the end."""
