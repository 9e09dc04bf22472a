"""Settings of Sphinx, by which ``make docs`` builds the site."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import chimbuko
from docs import tables

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "Chimbuko"
version = release = chimbuko.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"Chimbuko {version}"
# Nothing is loaded from elsewhere, so the site works offline.
html_theme_options = {"navigation_with_keys": True}
html_show_sourcelink = False
highlight_language = "none"
# Anchors of headings are those of a forge.
myst_heading_anchors = 4
autodoc_typehints = "description"
autodoc_member_order = "bysource"
suppress_warnings = ["misc.highlighting_failure"]


def fill(app: Sphinx, name: str, source: list[str]) -> None:
    """Complete a page with what follows from the code."""
    text = tables.filled(source[0])
    source[0] = tables.contents(text) if name == "index" else text


def setup(app: Sphinx) -> None:
    """Have each page completed as it is read."""
    app.connect("source-read", fill)
