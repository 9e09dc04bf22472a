"""The builds of ADIOS2 that the shield was tried with; with any other it lets everything pass as it is."""

from __future__ import annotations

CHECKED_BUILDS = {
    "4e2e34434d31fdd68ad21c39e478bce6ce1352d0+278de6929e925874565230a2a49c9ab99b229c9b": "2.12.1.1001",
}
"""Of pairs of GNU build ids, of ``libadios2_evpath`` and of ``libadios2_core``, what they are: versions of
the package adios2 on PyPI, for x86-64 and CPython 3.11. A pair enters after ``tests/shield/kills.py``, with
steps of 20 ms and of 1 s, has shown that no kill harms the writer."""
