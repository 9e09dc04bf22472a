"""The documents are a site that can be built, searched, and reached from its first page."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from chimbuko.causes.kinds.registry import CAUSES
from chimbuko.cli import VERBS
from chimbuko.core.config import AnalysisConfig
from chimbuko.viz.api.endpoints import ENDPOINTS
from docs import tables
from tests.places import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
BUILT = "furo", "myst_parser", "sphinx"
MEASURED = re.compile(r"^<!-- [\w-]+: measured -->$.*?^<!-- [\w-]+: end -->$", re.MULTILINE | re.DOTALL)
"""Tables of figures that benchmarks write."""
MOST_WORDS = 40_000


def test_pages_stand_in_four_parts() -> None:
    assert {path.partition("/")[0] for path in PAGES} == {
        "index.md",
        "start",
        "howto",
        "reference",
        "internals",
    }


def test_the_first_page_leads_to_all_others() -> None:
    contents = tables.contents((DOCS / "index.md").read_text())
    listed = re.findall(r"^([\w-]+/[\w-]+)$", contents, re.MULTILINE)
    assert sorted(listed) == sorted(path.removesuffix(".md") for path in PAGES if path != "index.md")


def test_documents_are_short() -> None:
    texts = [MEASURED.sub("", (DOCS / path).read_text()) for path in PAGES]
    assert sum(len(re.findall(r"\S*\w\S*", text)) for text in texts) <= MOST_WORDS


def test_all_parts_have_a_place() -> None:
    places = [place for path in PAGES for place in tables.PLACE.findall((DOCS / path).read_text())]
    assert sorted(places) == sorted(tables.PARTS)


def test_verbs_have_their_options() -> None:
    text = tables.verbs()
    assert [verb for verb in VERBS if f"### `chimbuko {verb}`" not in text] == []
    assert "| `--min-anomaly DURATION` |" in text
    assert "### `chimbuko runs prune`" in text
    assert "Usage:" not in text and "\b" not in text


def test_settings_have_default_and_meaning() -> None:
    text = tables.settings()
    assert [name for name in AnalysisConfig.__struct_fields__ if f"| `{name}` |" not in text] == []
    assert (
        "| `metric` | `'exclusive'` | Kind of runtime that is judged: `exclusive` or `inclusive`. |" in text
    )


def test_addresses_of_the_api_are_there() -> None:
    text = tables.endpoints()
    asked = {one.path: "POST" if one.is_write else "GET" for one in ENDPOINTS}
    assert [path for path, method in asked.items() if f"### `{method} {path}`" not in text] == []


def test_metrics_are_those_that_are_given() -> None:
    text = tables.metrics()
    assert "| `chimbuko_anomalies_total` | Number of calls that were flagged as anomalies |" in text
    assert "| `chimbuko_silent_agent_seconds` | Time since the last message of each silent agent" in text


def test_links_into_the_repository_are_named_on_the_site() -> None:
    assert tables.filled("[who](../../SECURITY.md) and [how](../howto/runs.md)") == (
        "who (`SECURITY.md` in the repository) and [how](../howto/runs.md)"
    )


def test_the_document_of_causes_has_those_of_the_registry() -> None:
    text = (DOCS / "reference" / "causes.md").read_text()
    listed = set(re.findall(r"^\| ([^|]+?) \|", text, re.MULTILINE)) - {"cause"}
    assert sorted(listed) == sorted(cause.id for cause in CAUSES)


def test_variables_of_the_document_are_read_somewhere() -> None:
    text = (DOCS / "reference" / "settings.md").read_text()
    sources = "".join(
        path.read_text()
        for room in ("chimbuko", "ad", "pserver", "provenance", "viz")
        for path in (ROOT / room).rglob("*.py")
        if "node_modules" not in path.parts
    )
    names = set(re.findall(r"\bCHIMBUKO_\w+", text))
    assert len(names) > 12
    assert [name for name in names if name not in sources] == []


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in BUILT),
    reason="the site is built by Sphinx: pip install 'chimbuko[docs]'",
)
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--quiet", "--builder", "html"]
    done = subprocess.run(
        [*command, "-d", tmp_path / "state", DOCS, tmp_path / "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    built = {path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*.html")}
    assert {path.replace(".md", ".html") for path in PAGES} <= built
    assert "checkpoint" in (tmp_path / "site" / "searchindex.js").read_text()
    first = (tmp_path / "site" / "index.html").read_text()
    assert not re.findall(
        r'(?:src|href)="https?://(?![^"]*(?:github|sphinx-doc|pradyunsg))[^"]*\.(?:js|css)"', first
    )
