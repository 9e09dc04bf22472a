"""Report of a run as one file that opens without a server: the page, with the answers that it would ask
for.
"""

from __future__ import annotations

import base64
import gzip
import time
import zlib
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from flask.testing import FlaskClient

from chimbuko.core.errors import ConfigError
from chimbuko.core.files import write_atomically
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.viz.api.blueprint import make_api
from chimbuko.viz.api.endpoint import ServedRun
from chimbuko.viz.api.endpoints import ENDPOINTS
from chimbuko.viz.api.openapi import ROOT
from chimbuko.viz.http.app import NOT_BUILT, STATIC, plain_app
from chimbuko.viz.live.feed import Feed
from chimbuko.viz.live.totals import STATISTICS

MOST_BYTES = 5_000_000
"""Most bytes of a report: what mail servers let through, with room to spare."""
MOST_FINDINGS = 30
MOST_CALLS = 30
MOST_QUANTITIES = 30
MOST_RANKS = 64
"""Most ranks whose steps are in a report."""
LANES = 13
"""Most ranks of an incident that its page draws, ``MOST_LANES`` there."""
MARGIN = 0.06
"""Margin before and after an incident, as a share of its length, as on its page."""
COLUMNS = 1200
PICTURE = ("columns", "after")
"""Parameters that depend on the size of the picture: the page leaves them out where it looks for an answer.
"""
ALWAYS_LEFT_OUT = ["timelines of whole ranks", "comparison with other runs", "exports"]

ENOUGH_MISSED = 3
"""Number of answers of one kind without room after which no further ones are tried, as each takes its time.
"""

Query = list[tuple[str, str]]


class WrittenReport(msgspec.Struct, frozen=True):
    """Summary of a written report."""

    path: str
    size_bytes: int
    left_out: list[str]
    """Parts of the run that are not in the report, in words."""


def shown(folder: Path) -> Path:
    """Return a run's folder as a report names it: with that of the runs, and not where this is."""
    return Path(*folder.parts[-2:]) if folder.is_absolute() else folder


class _Answers:
    """Answers of the API, as far as there is room for them."""

    def __init__(self, client: FlaskClient, folder: Path, room_bytes: int) -> None:
        self._client = client
        self._room_bytes = room_bytes
        # A report is mailed: where its writer keeps runs is nobody's business.
        self._folder, self._shown = (msgspec.json.encode(str(one))[1:-1] for one in (folder, shown(folder)))
        self.found: dict[str, msgspec.Raw] = {}
        self.missed: Counter[str] = Counter()

    def ask(self, path: str, query: Query | None = None, what: str = "") -> dict[str, Any]:
        """Return an answer after keeping it; empty if there is none, or no room for it, which is noted as
        a lack of ``what``.
        """
        key = _key(path, query or [])
        if key in self.found:
            return dict(msgspec.json.decode(self.found[key]))
        if what and self.missed[what] >= ENOUGH_MISSED:
            self.missed[what] += 1
            return {}
        answer = self._client.get(f"{ROOT}/{path}", query_string=query or [])
        if answer.status_code != 200:
            return {}
        body = answer.get_data().replace(self._folder, self._shown)
        # In the file it is base64, and packed together with the others, which makes it smaller still.
        size = len(zlib.compress(body)) * 4 // 3
        if size > self._room_bytes:
            self.missed[what] += 1
            return {}
        self._room_bytes -= size
        self.found[key] = msgspec.Raw(body)
        return dict(msgspec.json.decode(body))


def write_report(
    run: RunDirectory, file: Path, most_bytes: int = MOST_BYTES, static: Path = STATIC
) -> WrittenReport:
    """Write a run as one page.

    Parameters
    ----------
    most_bytes
        Largest size of the file. The most important comes first, and the page names what does not fit.

    Raises
    ------
    ChimbukoError
        The run cannot be read, the page is not built, or the file cannot be written.
    """
    try:
        script, style = ((static / "report" / name).read_text() for name in ("report.js", "report.css"))
    except OSError:
        raise ConfigError(f"{static}: {NOT_BUILT}") from None
    with open_run(run) as provenance:
        # The folder may name another run than its store holds.
        provenance.run()
        feed = Feed(run, provenance, None)
        app = plain_app(static, static / "index.html")
        app.register_blueprint(make_api(ServedRun(provenance, feed), ENDPOINTS))
        answers = _Answers(app.test_client(), run.path, most_bytes - len(script) - len(style) - 10_000)
        name = feed.state.info.name
        left_out = _collect(answers)
    content = {
        "made_ms": time.time_ns() // 1_000_000,
        "directory": str(shown(run.path)),
        "left_out": left_out,
        "answers": answers.found,
    }
    page = _page(name, script, style, msgspec.json.encode(content))
    try:
        write_atomically(file, page)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written ({error.strerror})") from error
    return WrittenReport(str(file), len(page), left_out)


def _collect(answers: _Answers) -> list[str]:
    """Ask the questions of the pages, the most important first, and return the parts that are left out."""
    run = answers.ask("run")
    answers.ask("budget")
    answers.ask("step-times")
    incidents = answers.ask("incidents", [("limit", str(MOST_FINDINGS))])
    answers.ask("grid", what="the map of all ranks")
    ranks = answers.ask("origins", [("by", "rank"), ("n", "5")]).get("origins", [])
    functions = answers.ask("origins", [("by", "function"), ("n", "5")]).get("origins", [])
    for limit in ("50", "1000"):
        answers.ask("functions", [("limit", limit)], "the list of all functions")
    for path in ("ranks", "function-ranking"):
        for statistic in STATISTICS:
            answers.ask(path, [("statistic", statistic), ("n", "5")])
    answers.ask("paths", what="the flame graph")
    _health(answers, run["status"]["last_step"] or 0)
    findings = _findings(answers, incidents)
    _published(answers, incidents)
    leading = [f"{one['program']}:{one['rank']}" for one in ranks]
    leading += [f"{row['program']}:{row['rank']}" for row in _ranking(answers)]
    reported = list(dict.fromkeys(leading))[:MOST_RANKS]
    for rank in reported:
        _steps(answers, rank, run["status"]["last_step"] or 0)
        answers.ask("step-times", [("rank", rank)], "steps of ranks")
    _calls(answers)
    for one in functions:
        _function(answers, one["function"], one["program"])
    for rank in reported:
        answers.ask("paths", [("rank", rank)], "flame graphs of ranks")
    missed = [f"{name} ({count})" if count > 1 else name for name, count in answers.missed.items() if name]
    listed = sum(len(incidents.get(name, [])) for name in ("recurrences", "metrics"))
    further = incidents.get("total", 0) + listed - findings
    if further > 0:
        missed.append(f"{further:,} further finding{'s' if further > 1 else ''}")
    if (all_ranks := run["status"]["ranks"]) > len(reported):
        missed.append(f"steps of {all_ranks - len(reported):,} ranks")
    return [*missed, "most calls", *ALWAYS_LEFT_OUT]


def _ranking(answers: _Answers) -> list[dict[str, Any]]:
    """Ask for the rankings of ranks by their anomalies."""
    query = [("statistic", "total"), ("n", str(MOST_RANKS))]
    rows: list[dict[str, Any]] = answers.ask("ranks", query).get("top", [])
    return rows


def _health(answers: _Answers, last_step: int) -> None:
    what = "health"
    answers.ask("vitals", what=what)
    answers.ask("gaps", what=what)
    answers.ask("placement", what=what)
    answers.ask("streams", [("sort", "loss"), ("limit", "50")], what)
    for level in range(5):
        if last_step < 1000 * 8**level:
            answers.ask("step-sums", [("level", str(level)), ("limit", "1000")], what)
    answers.ask("metadata", [("program", "0"), ("rank", "0"), ("limit", "1000")], what)
    answers.ask("nodes", [("limit", "1000")], what)


def _findings(answers: _Answers, listed: dict[str, Any]) -> int:
    """Ask for the findings, each with everything on its page, and return how many fit."""
    for name, path in (("recurrences", "recurrences"), ("metrics", "metric-findings")):
        for one in listed.get(name, []):
            answers.ask(f"{path}/{one['id']}", what="findings")
    for one in listed.get("incidents", []):
        known = answers.ask(f"incidents/{one['id']}", what="findings").get("incident")
        if known is None:
            continue
        subject = known["call_id"] or (known["waited"][0]["call_id"] if known["waited"] else "")
        if subject:
            _call(answers, subject)
        _lanes(answers, known)
    return sum(key.startswith(("incidents/", "recurrences/", "metric-findings/")) for key in answers.found)


def _published(answers: _Answers, listed: dict[str, Any]) -> None:
    """Ask for published quantities: the overview, and charts, those with findings first, then those with the
    most values.
    """
    what = "charts of what was published"
    known = answers.ask("workflow", what="the workflow").get("quantities", [])
    known.sort(key=lambda one: (one["namespace"] != "application", -one["points"]))
    wanted = dict.fromkeys(("application", one["finding"]["quantity"]) for one in listed.get("metrics", []))
    wanted |= dict.fromkeys((one["namespace"], one["quantity"]) for one in known)
    for namespace, name in list(wanted)[:MOST_QUANTITIES]:
        answers.ask("quantity", [("namespace", namespace), ("name", name)], what)
    if (others := len(wanted) - MOST_QUANTITIES) > 0:
        answers.missed[what] += others


def _lanes(answers: _Answers, incident: dict[str, Any]) -> None:
    """Ask for the timelines of the ranks concerned, as ``incident/model/lanes.ts`` chooses them."""
    origin = [] if incident["rank"] is None else [incident["rank"]]
    numbers = dict.fromkeys([*origin, *(one["rank"] for one in incident["waited"])])
    ranks = [f"{incident['program']}:{number}" for number in numbers][:LANES]
    begin_us, end_us = incident["begin_us"], incident["end_us"]
    # Rounded as in JavaScript.
    margin_us = max(1, int((end_us - begin_us) * MARGIN + 0.5))
    times = [("from_us", str(begin_us - margin_us)), ("to_us", str(end_us + margin_us))]
    for rank in ranks:
        others = [("with", other) for other in ranks if other != rank]
        answers.ask("timeline", [("rank", rank), *others, *times, ("columns", str(COLUMNS))], "timelines")


def _steps(answers: _Answers, rank: str, last_step: int) -> None:
    """Ask for the newest steps of a rank, as far as one answer holds them."""
    after = max(0, last_step - 10_000) - 1
    query = [("rank", rank)] + ([("after", str(after))] if after >= 0 else [])
    answers.ask("step-columns", query, "steps of ranks")


def _calls(answers: _Answers) -> None:
    """Ask for the worst calls, each with its page."""
    page: Query = [("sort", "severity_us"), ("descending", "true")]
    answers.ask("calls", [("label", "any"), *page, ("limit", "50")])
    answers.ask("points", [("label", "any")], "the chart of calls")
    worst = answers.ask("calls", [("label", "anomaly"), *page, ("limit", str(MOST_CALLS))]).get("calls", [])
    for call in worst:
        _call(answers, call["id"])
        place = [("program", str(call["program"])), ("rank", str(call["rank"])), ("limit", "1000")]
        for path in ("counters", "metadata"):
            answers.ask(path, place, "pages of calls")
        named = [("name", call["function"]), ("program", str(call["program"]))]
        answers.ask("function", named, "pages of calls")
        if call["incident_id"]:
            answers.ask(f"incidents/{call['incident_id']}", what="pages of calls")


def _function(answers: _Answers, name: str, program: int) -> None:
    """Ask for everything on the page of a function."""
    what = "pages of functions"
    answers.ask("function", [("name", name), ("program", str(program))], what)
    function: Query = [("function", name), ("program", str(program))]
    for by in ("step", "time"):
        answers.ask("totals", [("by", by), *function, ("limit", "1000")], what)
    answers.ask("totals", [("by", "rank"), *function, ("limit", "50")], what)
    answers.ask("paths", function, what)
    answers.ask("calls", [*function, ("sort", "severity_us"), ("limit", "20")], what)


def _call(answers: _Answers, call_id: str) -> None:
    address = f"calls/{quote(call_id, safe='')}"
    answers.ask(address, what="pages of calls")
    answers.ask(f"{address}/node", what="pages of calls")


def _key(path: str, query: Query) -> str:
    """Return the key of a question, as ``shared/api/report.ts`` writes it."""
    words = [f"{_encoded(name)}={_encoded(value)}" for name, value in query if name not in PICTURE]
    return f"{path}?{'&'.join(sorted(words))}"


def _encoded(text: str) -> str:
    """Return a text encoded as by JavaScript's ``encodeURIComponent``."""
    return quote(text, safe="-_.!~*'()")


def _page(name: str, script: str, style: str, content: bytes) -> bytes:
    """Return the content of the file. No character of the compressed answers means anything in HTML, nor does
    the run's name here.
    """
    packed = base64.b64encode(gzip.compress(content, mtime=0)).decode()
    home = "r/" + quote(name, safe="")
    closed = script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src blob: data:"
    text = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8" />
<meta http-equiv="Content-Security-Policy" content="{policy}" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<meta name="color-scheme" content="light dark" />
<title>Chimbuko</title>
<style>{style}</style>
</head>
<body>
<div id="app"></div>
<noscript>This report needs JavaScript. The same in the terminal: <code>chimbuko incidents</code>.</noscript>
<script type="application/octet-stream" id="report" data-home="{home}">{packed}</script>
<script>{closed}</script>
</body>
</html>
"""
    return text.encode()
