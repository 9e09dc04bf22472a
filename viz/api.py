"""The HTTP API, ``/api/v1``: what the page shows, as JSON objects; lists come in pages with a cursor."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
from flask import Blueprint, Response, request

from chimbuko.errors import ConfigError
from chimbuko.provenance.calls import CallFilter, Sort, as_object
from chimbuko.provenance.queries import Provenance
from chimbuko.records import StepCount
from chimbuko.viz import arguments as read
from chimbuko.viz.arguments import Arguments
from chimbuko.viz.feed import Feed
from chimbuko.viz.tally import RankKey, Statistic

STEP_FIELDS = ("step", "start_us", "end_us", "calls", "anomalies", "severity_us", "highest_score")
STEPS_AT_ONCE = 50_000
"""Steps in one answer: 12 ranks for an hour at one step a second, and 2 MB at most."""


def rank_text(key: RankKey) -> str:
    """How the API and addresses name a rank."""
    return f"{key[0]}:{key[1]}"


def step_row(step: StepCount) -> list[float]:
    """One step as a row of ``STEP_FIELDS``: a history has thousands."""
    return [getattr(step, name) for name in STEP_FIELDS]


def make_api(provenance: Provenance, feed: Feed) -> Blueprint:
    """The API of one run."""
    api = Blueprint("api", __name__, url_prefix="/api/v1")

    @api.get("/run")
    def run() -> Response:
        _arguments()
        info = feed.info()
        return _answer(
            id=info.id,
            name=info.name,
            command=info.command,
            directory=str(feed.run.path),
            state=info.state,
            exit_code=info.exit_code,
            started_us=info.started_us,
            ended_us=info.ended_us,
            host=info.host,
            programs={str(number): name for number, name in provenance.programs().items()},
            detector=info.config.detector,
            threshold=info.config.threshold,
            metric=info.config.metric,
            live=feed.is_live,
            status=as_object(feed.status()),
            answer=_headline(provenance, feed),
        )

    @api.get("/ranks")
    def ranks() -> Response:
        given = _arguments("statistic", "n")
        mean: Statistic = "mean"
        statistic = read.one(given, "statistic", read.choice(read.STATISTICS), mean)
        n = read.one(given, "n", read.positive(read.MAX_LIMIT), 5)
        return _answer(**as_object(feed.ranking(statistic, n)))

    @api.get("/functions")
    def functions() -> Response:
        given = _arguments("limit", "cursor")
        limit = read.one(given, "limit", read.positive(read.MAX_LIMIT), 50)
        start = read.one(given, "cursor", read.whole, 0)
        if start < 0:
            raise ConfigError(f"cursor={start}: not one that a list of functions ended with; leave it out")
        rows = feed.worst_functions()
        more = start + limit < len(rows)
        page = rows[start : start + limit]
        return _answer(functions=as_object(page), total=len(rows), next=str(start + limit) if more else None)

    @api.get("/steps")
    def steps() -> Response:
        given = _arguments("rank", "after")
        keys = read.ranks(given)
        after = read.one(given, "after", read.whole, None)
        return _answer(fields=STEP_FIELDS, **_history(provenance, feed, keys, after))

    @api.get("/calls")
    def calls() -> Response:
        given = _arguments("sort", "descending", "limit", "cursor", *read.FILTER_NAMES)
        wanted = read.call_filter(given)
        page = provenance.calls(
            wanted,
            sort=read.one(given, "sort", read.choice(get_args(Sort)), "severity_us"),
            descending=read.one(given, "descending", read.flag, True),
            limit=read.one(given, "limit", read.positive(read.MAX_LIMIT), 50),
            cursor=read.one(given, "cursor", str, None),
        )
        return _answer(calls=as_object(page.calls), next=page.next, total=provenance.count(wanted))

    @api.get("/calls/<event_id>")
    def call(event_id: str) -> tuple[Response, int] | Response:
        _arguments()
        try:
            record = provenance.call(event_id)
        except ConfigError as error:
            return _json({"ok": False, "error": str(error), "status": 404}), 404
        return _answer(record=as_object(record), normal=as_object(provenance.normal_like(record)))

    @api.get("/health")
    def health() -> Response:
        _arguments()
        return _answer(
            status=as_object(feed.status()),
            streams=as_object(feed.health()),
            dropped=as_object(provenance.dropped()),
        )

    return api


def _arguments(*known: str) -> Arguments:
    read.check_names(request.args, frozenset(known))
    return request.args


def _answer(**fields: Any) -> Response:
    return _json({"ok": True, **fields})


def _json(body: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(body), mimetype="application/json")


def _headline(provenance: Provenance, feed: Feed) -> dict[str, Any]:
    """The numbers of the sentence that the page opens with."""
    functions = feed.worst_functions()
    worst = functions[0] if functions and functions[0].anomalies else None
    wanted = CallFilter(function=worst.name, program=worst.program) if worst else CallFilter()
    calls = provenance.calls(wanted, sort="severity_us", limit=1).calls
    return {
        "anomalies": feed.status().anomalies,
        "ranks_with_anomalies": feed.ranks_with_anomalies(),
        "functions": len(functions),
        "worst_function": worst.name if worst else None,
        "worst_severity_us": worst.severity_us if worst else 0.0,
        "worst_call": calls[0].id if calls else None,
        "worst_rank": rank_text((calls[0].program, calls[0].rank)) if calls else None,
    }


def _history(provenance: Provenance, feed: Feed, keys: list[RankKey], after: int | None) -> dict[str, Any]:
    """Steps of these ranks, those of the store and those that it does not have yet.

    ``next`` is the step after which to ask again, None at the end: an answer holds a limited
    number of steps, all ranks' up to the same one.
    """
    first = None if after is None else after + 1
    last = (-1 if after is None else after) + max(1, STEPS_AT_ONCE // len(keys))
    # The feed is asked first: what it forgets in between is in the store by then.
    recent = feed.recent_steps(keys)
    found = {(step.program, step.rank, step.step): step for step in recent}
    for step in provenance.step_counts(keys, first, last):
        found[step.program, step.rank, step.step] = step
    rows: dict[RankKey, list[list[float]]] = {key: [] for key in keys}
    for program, rank, number in sorted(found):
        if (after is None or number > after) and number <= last:
            rows[program, rank].append(step_row(found[program, rank, number]))
    newest = feed.status().last_step
    more = newest is not None and newest > last
    return {
        "series": [{"rank": rank_text(key), "steps": rows[key]} for key in keys],
        "next": last if more else None,
    }
