"""Names in samples of processes of Chimbuko: of the run itself, and of others."""

from __future__ import annotations

ITSELF, ANOTHER_RUN = "chimbuko: itself", "another chimbuko"
"""Names in samples of processes of this run's analysis, and of another's. No process can call itself so: the
kernel keeps 15 bytes of a name.
"""
_PREFIX = "chimbuko."
_PARTS = frozenset(
    {
        "ad",
        "broker",
        "drain",
        "guard",
        "instru",
        "launch",
        "observ",
        "proven",
        "pserve",
        "viz",
        "captur",
        "monito",
    }
)
"""Words behind the prefix, as far as the kernel keeps them."""


def is_title(name: str) -> bool:
    """Whether a process of Chimbuko calls itself so."""
    return name.startswith(_PREFIX) and name.split(".")[1] in _PARTS


def spoken(name: str) -> str:
    """Return the name of a process that samples have, as it reads in sentences."""
    return "another run of chimbuko" if name == ANOTHER_RUN else name


def is_of_analysis(name: str) -> bool:
    """Whether samples have this name of a process of the run's own analysis; in samples of earlier versions
    these have their titles.
    """
    return name == ITSELF or is_title(name)
