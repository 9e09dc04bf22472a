"""Imports what the C++ Chimbuko recorded, of its versions 1 and 2, into a run of ours."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from chimbuko.core.calls.record import CallRecord, CounterStatistics, Metadata, StepCount, StreamHealth
from chimbuko.core.calls.recordarrays import PackedRecords, pack
from chimbuko.core.calls.schema import Label
from chimbuko.core.config import METRICS, AnalysisConfig
from chimbuko.core.errors import ConfigError
from chimbuko.core.statistics.schema import schema_of
from chimbuko.provenance.export.version2 import GPU_KEYS
from chimbuko.provenance.importing.cppmodels import CounterProfile, FunctionProfile, Learned, final_model_of
from chimbuko.provenance.importing.cpprecords import ForeignCall, call_of, metadata_of
from chimbuko.provenance.importing.recordfiles import PROFILES, NotJson, read_objects, record_files
from chimbuko.provenance.importing.tally import ImportTally
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.store.urls import public_url
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import FunctionModel, RecordBatch, RunStatistics
from chimbuko.runtime.runs.directory import RunDirectory, new_run

AT_ONCE = 500
"""Number of calls that are read and written together."""
NAMED_REFUSALS = 3
ALL_RANKS = -1
"""Number in place of the rank in statistics of a whole program."""

_LABELS = {"anomalies": Label.ANOMALY, "normalexecs": Label.NORMAL}
_Value = TypeVar("_Value")


class Imported(msgspec.Struct, frozen=True):
    """Result of an import."""

    run: str
    """Path of the run's folder."""
    anomalies: int
    normal_calls: int
    refused: int
    """Number of objects that could not be read."""
    first_refused: list[str]
    """Places of the first objects that could not be read, with the reasons."""


@dataclass
class _Refusals:
    """Objects that could not be read."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, path: Path, number: int, reason: object) -> None:
        self.count += 1
        if len(self.first) < NAMED_REFUSALS:
            self.first.append(f"{path}, record {number}: {reason}")


def is_foreign(source: Path) -> bool:
    """Whether a file or folder holds what the C++ Chimbuko recorded, going by names.

    Raises
    ------
    ConfigError
        A folder cannot be read.
    """
    return any(True for _ in record_files(source)) or any(path.is_file() for path in _profile_paths(source))


def _check_free(run_folder: Path) -> None:
    """Raise ``ConfigError`` where a folder is neither empty nor a run, which is asked about elsewhere."""
    holds_run = RunDirectory(run_folder).info_path.exists()
    if run_folder.exists() and not holds_run and (run_folder.is_file() or any(run_folder.iterdir())):
        raise ConfigError(f"{run_folder}: is there already, and not empty; choose another with --output")


def import_records(
    source: Path,
    run_folder: Path,
    name: str | None = None,
    store_url: str | None = None,
    report: Callable[[int], None] = lambda calls: None,
) -> Imported:
    """Make a run of what the C++ Chimbuko recorded.

    Parameters
    ----------
    source
        A folder with ``anomalies``, ``normalexecs`` and ``metadata`` files (``.json`` or ``.jsonl``: a list,
        or a line per object), also further down (``PROGRAM/RANK/STEP.anomalies.json``); or one such file.
    run_folder
        Folder of the new run.
    name
        Name of the run; by default that of its folder.
    store_url
        Store to write into; by default a file in the run's folder.
    report
        Called now and then with the number of calls imported so far.

    Raises
    ------
    ConfigError
        There are no records, none of them can be read, or the folder cannot be used; nothing was made.
    StoreError
        The store cannot be written. The run is left as ``interrupted``.
    """
    refusals = _Refusals()
    calls = _calls(source, refusals)
    # Nothing is made before there is something to import.
    first = list(itertools.islice(calls, AT_ONCE))
    if refusals.count and not first:
        reason = f"none of {refusals.count} records can be read; the first: {refusals.first[0]}"
        raise ConfigError(f"{source}: {reason}")
    if not is_foreign(source):
        raise ConfigError(f"{source}: holds no records of Chimbuko (files such as anomalies.json)")
    _check_free(run_folder)
    profiles = _Profiles(source, refusals)
    config = _config(first, profiles)
    run = new_run(run_folder, [], config, None if store_url is None else public_url(store_url))
    if store_url is not None:
        run.write_store_url(store_url)
    info = msgspec.structs.replace(run.read_info(), name=name or run_folder.name, state="interrupted")
    run.write_info(info)
    engine = open_for_writing(store_url or run.store_url)
    try:
        writer = Writer(engine, info.id)
        writer.write_run(info)
        if store_url is not None:
            writer.write_folder(run.path)
        importing = _Import(writer, config)
        importing.write_metadata(_metadata(source, refusals))
        for batch in itertools.chain([first], _batches(calls)):
            importing.write_calls(batch)
            report(importing.tally.anomalies + importing.tally.normal_calls)
        importing.write_totals(profiles)
        _finish(run, writer, importing)
    finally:
        close(engine)
    tally = importing.tally
    return Imported(str(run.path), tally.anomalies, tally.normal_calls, refusals.count, refusals.first)


class _Profiles:
    """Files that describe the whole run, where they are there."""

    def __init__(self, source: Path, refusals: _Refusals) -> None:
        functions, counters, models = _profile_paths(source)
        self.functions = list(_read(functions, partial(msgspec.convert, type=FunctionProfile), refusals))
        self.counters = list(_read(counters, partial(msgspec.convert, type=CounterProfile), refusals))
        self.models = dict(_read(models, final_model_of, refusals))

    def last_models(self, config: AnalysisConfig) -> Iterator[tuple[int, str, bytes]]:
        """Yield program, name and row of each function of which something was known at the end."""
        slices = schema_of(config.detector).slices
        runtimes = {
            (profile.app, profile.fname): profile.runtime_profile
            for profile in self.functions
            if profile.runtime_profile is not None
        }
        for place in {**runtimes, **self.models}:
            row = self.models.get(place, Learned()).row(config.detector, config.metric)
            if place in runtimes:
                row[slices["exclusive_us"]] = runtimes[place].exclusive_runtime.moments().row()
                row[slices["inclusive_us"]] = runtimes[place].inclusive_runtime.moments().row()
            yield *place, row.tobytes()


class _Import:
    """Import of records into a store, while it goes on."""

    def __init__(self, writer: Writer, config: AnalysisConfig) -> None:
        self.tally = ImportTally(config.detector, config.metric)
        self.command: list[str] = []
        """Command line of the first program that has one."""
        self._config = config
        self._writer = writer
        self._gpu_streams: set[tuple[int, int, int]] = set()
        self._programs: set[int] = set()

    def write_metadata(self, attributes: Iterable[Metadata]) -> None:
        """Write attributes of streams; some of them name programs and nodes."""
        for batch in _batches(attributes):
            for item in batch:
                self._note(item)
            self._write_batches([], batch)

    def write_calls(self, calls: list[ForeignCall]) -> None:
        """Write calls, the models that judged them and where on a GPU they ran."""
        added = [self.tally.add(call) for call in calls]
        self._writer.write_statistics(
            RunStatistics(models=[model for _, models in added for model in models])
        )
        attributes = [
            item
            for call in calls
            for item in call.gpu_attributes
            if (item.program, item.rank, item.thread) not in self._gpu_streams
        ]
        self._gpu_streams |= {(item.program, item.rank, item.thread) for item in attributes}
        self._write_batches([record for record, _ in added], attributes)

    def write_totals(self, profiles: _Profiles) -> None:
        """Write what is known once all calls are: steps, functions and counters."""
        for steps in _batches(self.tally.steps(), 100 * AT_ONCE):
            self._write_batches([], [], steps)
        self._writer.write_statistics(
            RunStatistics(functions=self.tally.function_statistics(profiles.functions))
        )
        self._writer.write_statistics(
            RunStatistics(
                models=[
                    FunctionModel(self.tally.version_after(program, function), program, function, row)
                    for program, function, row in profiles.last_models(self._config)
                ]
            )
        )
        counters: dict[int, list[CounterStatistics]] = {}
        for profile in profiles.counters:
            moments = profile.stats.moments().row().tolist()
            counters.setdefault(profile.app, []).append(CounterStatistics(profile.counter, *moments))
        self._writer.write([_counter_batch(program, reported) for program, reported in counters.items()])

    def _note(self, item: Metadata) -> None:
        if item.key == "Hostname":
            self.tally.name_node(item.program, item.rank, item.value)
        elif item.key == "Executable" and item.program not in self._programs:
            self._programs.add(item.program)
            self._writer.write_statistics(RunStatistics({item.program: Path(item.value).name}))
        elif item.key == "Command Line":
            self.command = self.command or item.value.split()
        elif GPU_KEYS.fullmatch(item.key):
            self._gpu_streams.add((item.program, item.rank, item.thread))

    def _write_batches(
        self, records: list[CallRecord], attributes: list[Metadata], steps: Sequence[StepCount] = ()
    ) -> None:
        """Write records, attributes and steps of each stream, with its totals so far."""
        streams: dict[tuple[int, int], tuple[list[Any], ...]] = {}
        given: tuple[Sequence[Any], ...] = records, attributes, steps
        for part, items in enumerate(given):
            for item in items:
                streams.setdefault((item.program, item.rank), ([], [], []))[part].append(item)
        self._writer.write([_batch(self.tally.health(*place), *own) for place, own in streams.items()])


def _finish(run: RunDirectory, writer: Writer, importing: _Import) -> None:
    """Write the description of the run."""
    info, tally = run.read_info(), importing.tally
    info = msgspec.structs.replace(
        info,
        state="imported",
        command=importing.command,
        host=tally.first_node,
        started_us=tally.first_us or info.started_us,
        ended_us=tally.last_us or info.started_us,
    )
    writer.write_run(info)
    run.write_info(info)


def _config(calls: list[ForeignCall], profiles: _Profiles) -> AnalysisConfig:
    """Return detector and metric, as far as the first calls and the final models show them."""
    reported = [call.learned for call in calls if call.learned is not None]
    votes = Counter(call.metric for call in calls if call.metric is not None)
    return AnalysisConfig(
        detector=next((learned.detector for learned in [*reported, *profiles.models.values()]), "sstd"),
        metric=votes.most_common(1)[0][0] if votes else METRICS[0],
        # The C++ Chimbuko flags however little time is lost.
        min_anomaly_us=0,
    )


def _calls(source: Path, refusals: _Refusals) -> Iterator[ForeignCall]:
    for file in record_files(source):
        if file.kind in _LABELS:
            yield from _read(file.path, partial(call_of, label=_LABELS[file.kind]), refusals)


def _metadata(source: Path, refusals: _Refusals) -> Iterator[Metadata]:
    for file in record_files(source):
        if file.kind not in _LABELS:
            yield from _read(file.path, metadata_of, refusals)


def _read(path: Path, convert: Callable[[object], _Value], refusals: _Refusals) -> Iterator[_Value]:
    """Yield the objects of a file, if it is there; those that cannot be converted are counted."""
    if not path.is_file():
        return
    for number, value in read_objects(path):
        if isinstance(value, NotJson):
            refusals.add(path, number, value.reason)
            continue
        try:
            yield convert(value)
        except (ValueError, RecursionError, msgspec.ValidationError) as error:
            refusals.add(path, number, error)


def _profile_paths(source: Path) -> list[Path]:
    return [source / f"{profile}.json" for profile in PROFILES]


def _batches(items: Iterable[_Value], at_once: int = AT_ONCE) -> Iterator[list[_Value]]:
    left = iter(items)
    while batch := list(itertools.islice(left, at_once)):
        yield batch


def _batch(
    health: StreamHealth, records: list[CallRecord], attributes: list[Metadata], steps: list[StepCount]
) -> RecordBatch:
    stream = f"{health.program}:{health.rank}"
    return RecordBatch(stream, 0, pack(records), steps, attributes, health, {})


def _counter_batch(program: int, counters: list[CounterStatistics]) -> RecordBatch:
    # Its name is not that of a rank's stream, so that its health is not stored.
    health = StreamHealth(program, ALL_RANKS, "", "ended", 0, 0, 0, 0, 0, 0, {})
    return RecordBatch("all", 0, PackedRecords(), [], [], health, {}, counters)
