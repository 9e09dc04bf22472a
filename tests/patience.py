"""How long tests wait for what must come: none is about how long that takes, and a busy machine is slow."""

PATIENCE_S = 120.0
"""Less than a test may take, so that who waits says what did not come."""
