"""``chimbuko runs index``: makes the whole of a recorded trace ready for the dashboard's timeline."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import msgspec
import numpy as np

from chimbuko.ad.analysis.wholetrace import WholeTrace, read_whole
from chimbuko.capture.trace.discovery import StreamName
from chimbuko.capture.trace.recordedstreams import stamp_of
from chimbuko.core.arrays import RankKey
from chimbuko.core.errors import ConfigError
from chimbuko.core.units import number_of
from chimbuko.provenance.query.run import Provenance, open_run
from chimbuko.provenance.timeline.edges import LAUNCH, LINK, RECEIVE, SEND, UNKNOWN, Links, numbered
from chimbuko.provenance.timeline.rankcalls import RankCalls
from chimbuko.provenance.timeline.spans import ANOMALY, DOUBTFUL, OPEN, RECORDED, SpanRow, new_spans, rows_of
from chimbuko.provenance.timeline.traceindex import (
    VERSION,
    IndexFiles,
    IndexHeader,
    recorded_by_rank,
    write_index,
)
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.runtime.runs.finding import find_run

Judged = dict[tuple[int, int], bool]
"""(Step, row) of the calls that have records, and whether they are abnormal."""


class Indexed(msgspec.Struct, frozen=True):
    """Index of one rank."""

    program: int
    rank: int
    calls: int
    links: int


class reported(msgspec.Struct, frozen=True):
    """Report how far the making of an index is."""

    program: int
    rank: int
    rows: int
    """Read so far."""


@click.command("index", short_help="Make a recorded trace ready for the dashboard's timeline.")
@click.argument("run_dir", metavar="[RUN]", required=False, type=click.Path(path_type=Path))
@click.option("--rank", "ranks", multiple=True, metavar="PROGRAM:RANK", help="Only this rank. Repeatable.")
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path),
    help="Folder for the index; default a folder of the run.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print a line of JSON as it goes on, and one for each rank."
)
def command(run_dir: Path | None, ranks: tuple[str, ...], folder: Path | None, as_json: bool) -> None:
    """Rebuild all calls of the trace that a run was made of, and keep them in the order of a picture.

    The dashboard does this by itself for the ranks that are looked at; for a long trace it can be done
    before. It takes about a second and 100 MB of disk for a million calls.

    \b
    Examples:
      chimbuko runs index
      chimbuko runs index chimbuko-runs/heat --rank 0:3 --rank 0:4
    """
    run = find_run(run_dir)
    with open_run(run) as provenance:
        found = recorded_by_rank(run, provenance.programs())
        wanted = [_rank_key(text) for text in ranks] or sorted(found)
        missing = [key for key in wanted if key not in found]
        if missing or not found:
            which = ", ".join(f"{program}:{rank}" for program, rank in missing) or "any rank"
            raise ConfigError(f"{run.path}: no recorded trace of {which} lies where the run found it")
        for key in wanted:
            made = _make(provenance, run, key, found[key], folder or run.timelines, as_json)
            if as_json:
                print(msgspec.json.encode(made).decode(), flush=True)
            else:
                calls = number_of(made.calls, "calls")
                print(f"rank {key[0]}:{key[1]}: {calls}, {made.links:,} messages and launches")


def _make(
    provenance: Provenance, run: RunDirectory, key: RankKey, stream: StreamName, folder: Path, as_json: bool
) -> Indexed:
    stamp = stamp_of(stream.path)
    judged = {(step, row): is_anomaly for step, row, is_anomaly in RankCalls(provenance.calls, key).places()}
    whole = read_whole(stream, _teller(key) if as_json else lambda rows: None)
    functions, rows = _rows(whole, judged)
    links = _links(whole)
    header = IndexHeader(
        VERSION,
        stamp,
        len(judged),
        whole.interval_us,
        whole.gaps_us,
        functions,
        whole.gpu_threads,
        [],
        len(whole.calls),
    )
    try:
        write_index(IndexFiles(folder, *key), header, rows, links)
    except OSError as error:
        raise ConfigError(f"{folder}: the index cannot be written ({error.strerror})") from error
    return Indexed(*key, len(whole.calls), len(links))


def _teller(key: RankKey) -> Callable[[int], None]:
    def report(rows: int) -> None:
        print(msgspec.json.encode(reported(*key, rows)).decode(), flush=True)

    return report


def _rows(whole: WholeTrace, judged: Judged) -> tuple[list[str], list[SpanRow]]:
    calls = whole.calls
    timers, numbers = np.unique(calls["function"], return_inverse=True)
    spans = new_spans(len(calls))
    for name in ("begin_us", "end_us", "exclusive_us", "step", "row"):
        spans[name] = calls[name]
    spans["longest_us"] = calls["end_us"] - calls["begin_us"]
    spans["function"] = numbers
    spans["flags"] = np.where(calls["is_open"], OPEN, 0) | np.where(calls["is_doubtful"], DOUBTFUL, 0)
    if judged:
        places = np.array(list(judged), np.int64)
        keys = (places[:, 0] << 32) | places[:, 1]
        flags = RECORDED | np.where(list(judged.values()), ANOMALY, 0)
        order = np.argsort(keys)
        own = (calls["step"].astype(np.int64) << 32) | calls["row"]
        at = np.minimum(np.searchsorted(keys[order], own), len(keys) - 1)
        spans["flags"] |= np.where(keys[order][at] == own, flags[order][at], 0).astype(np.uint8)
    names = [whole.names.timer_name(timer) for timer in timers.tolist()]
    return names, rows_of(spans, calls["thread"], calls["depth"])


def _links(whole: WholeTrace) -> Links:
    messages, launches = whole.messages, whole.launches
    links = np.zeros(len(messages) + len(launches), LINK)
    links["count"] = 1
    sent = links[: len(messages)]
    for name in ("time_us", "thread", "depth", "tag"):
        sent[name] = messages[name]
    sent["size_bytes"], sent["other_rank"] = messages["bytes"], messages["partner"]
    sent["kind"] = np.where(messages["is_send"], SEND, RECEIVE)
    for name in ("other_us", "other_thread", "other_depth"):
        sent[name] = UNKNOWN
    launched = links[len(messages) :]
    launched["kind"], launched["other_rank"] = LAUNCH, UNKNOWN
    launched["time_us"], launched["other_us"] = launches["time_us"], launches["kernel_us"]
    launched["thread"], launched["depth"] = launches["thread"], launches["depth"]
    launched["other_thread"], launched["other_depth"] = launches["kernel_thread"], launches["kernel_depth"]
    return numbered(links)


def _rank_key(text: str) -> RankKey:
    program, colon, rank = text.rpartition(":")
    if not (rank.isdecimal() and (program.isdecimal() or not colon)):
        raise ConfigError(f"--rank {text!r}: not PROGRAM:RANK; give one like 0:3")
    return int(program or 0), int(rank)
