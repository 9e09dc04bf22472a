"""Builds of ADIOS2 with which the shield was tested; with any other it does nothing."""

from __future__ import annotations

CHECKED_BUILDS = {
    "4e2e34434d31fdd68ad21c39e478bce6ce1352d0+278de6929e925874565230a2a49c9ab99b229c9b": "2.12.1.1001",
    "99647c2ba106cd823643aaa14af7ade9c4e2887b+53f34d72c65a03907fbefed9c91506e358b1f079": "2.12.0.1003",
    "e305f9fbcf73c869bad7f25b82b02f3f4e6d7faf+fa42d84a4f406cead4bca785c5a6b3e8d70c25c4": "2.12.0.1002",
    "f5597bab040d449e6b94303db48252e81020cd0b+151b60836b89e491b32975062949aee27c344c70": "2.12.0.1001",
    "6c05533f35d82426dfe660942b6c94f836fdb3bb+c78c3080bc3573a1ba50b7d2a8948a635db77dfd": "2.12.0.1000",
    "865105e6d1cabba7eaaf19199b15f02ce1a4d5fa+88f2df7fc3a1197c46ed1f6cea1f68e4565ec812": "2.11.0.1014",
    "93de3aff1aa9856a0bacc32ce80f5720efc04a13+f4912f737703bc7e6fa3927b8e95d9a35c170726": "2.10.2.100774",
}
"""Versions of the package adios2 on PyPI (x86-64, CPython 3.11), by pairs of the GNU build ids of its
``libadios2_evpath`` and ``libadios2_core``. A pair is added after ``tests/capture/shield/kills.py`` has shown
that no kill of a reader harms the writer: at least 110 with steps of 20 ms, and 40 with steps of 1 s."""
