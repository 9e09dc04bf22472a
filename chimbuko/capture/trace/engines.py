"""The names of ADIOS2's engines, which no other module knows. Loads nothing: a traced program reads them."""

from __future__ import annotations

from typing import Final

SST: Final = "SST"
BP_FILE: Final = "BPFile"
"""Reads BP4 and BP5, and writes the newest."""
BP5: Final = "BP5"
ENGINES: Final = (SST, "BP4", BP5)
"""What a stream can be written by."""
