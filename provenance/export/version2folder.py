"""Writes a run as the files that Chimbuko's version 2 writes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from chimbuko.core.calls.record import CallRecord
from chimbuko.core.calls.schema import Label
from chimbuko.core.statistics.moments import Moments
from chimbuko.provenance.export import version2
from chimbuko.provenance.export.source import ExportSource
from chimbuko.runtime.protocol.messages import FunctionModel

MODELS_HELD = 4096
"""Number of models kept in memory: a function's calls of one time refer to the same one."""


def write_version2(source: ExportSource, folder: Path) -> None:
    """Write a run as Chimbuko's version 2 does without a database.

    ``PROGRAM/RANK/STEP.anomalies.json``, ``STEP.normalexecs.json`` and ``STEP.metadata.json`` are lists of
    records. ``global_func_stats.json``, ``global_counter_stats.json`` and ``ad_model.json`` report the
    whole run. Metadata stands with the first step of its rank. The model that judged a call is filled in.
    ``incidents.json``, which version 2 does not have, holds incidents, what recurs and what is wrong in
    published quantities as our API shows them.
    """
    _Export(source, folder).write()


class _Export:
    """A run on its way into a folder."""

    def __init__(self, source: ExportSource, folder: Path) -> None:
        config, provenance = source.run.config, source.provenance
        self._source = source
        self._provenance = provenance
        self._folder = folder
        self._run = version2.Run(
            detector=config.detector,
            metric=config.metric,
            watched_counters=config.watched_counters,
            counter_fields=dict(config.counter_fields),
            functions=provenance.function_numbers(),
            counters=provenance.text_numbers(),
            gpu_streams=version2.gpu_streams(provenance.metadata()),
        )
        self._metrics: dict[tuple[int, str], version2.AnomalyMetrics] = {}
        self._written = {Label.ANOMALY: 0, Label.NORMAL: 0}
        self._model = lru_cache(MODELS_HELD)(provenance.models.at)

    def write(self) -> None:
        """Write everything."""
        self._write_metadata()
        for (program, rank, step), calls in groupby(
            self._source.records(), key=lambda call: (call.program, call.rank, call.step)
        ):
            self._write_step(self._folder / str(program) / str(rank), step, calls)
        models = list(self._provenance.models.newest())
        _write(self._folder / "global_func_stats.json", self._function_statistics(models))
        _write(self._folder / "global_counter_stats.json", self._counter_statistics())
        _write(self._folder / "ad_model.json", [self._model_object(model) for model in models])
        found = {
            "incidents": list(self._source.incidents()),
            "recurrences": self._source.recurrences(),
            "metrics": self._source.metric_findings(),
        }
        _write(self._folder / "incidents.json", found)

    def _write_metadata(self) -> None:
        first_steps = self._provenance.steps.firsts()
        attributes = groupby(self._provenance.metadata(), key=lambda item: (item.program, item.rank))
        number = 0
        for (program, rank), items in attributes:
            objects = [version2.metadata_object(item, number + n) for n, item in enumerate(items)]
            number += len(objects)
            step = first_steps.get((program, rank), 0)
            _write(self._folder / str(program) / str(rank) / f"{step}.metadata.json", objects)

    def _write_step(self, folder: Path, step: int, calls: Iterator[CallRecord]) -> None:
        objects: dict[Label, list[version2.Object]] = {Label.ANOMALY: [], Label.NORMAL: []}
        for call in calls:
            number = self._written[call.label]
            objects[call.label].append(version2.record_object(call, number, self._run, self._model_of(call)))
            self._written[call.label] += 1
            if call.label is Label.ANOMALY:
                self._metrics.setdefault((call.program, call.function), version2.AnomalyMetrics()).add(call)
        for label, kind in ((Label.ANOMALY, "anomalies"), (Label.NORMAL, "normalexecs")):
            if objects[label]:
                _write(folder / f"{step}.{kind}.json", objects[label])

    def _model_of(self, call: CallRecord) -> FunctionModel | None:
        return self._model(call.program, call.function, call.model_version)

    def _function_statistics(self, models: list[FunctionModel]) -> list[version2.Object]:
        by_function = {(model.program, model.name): model for model in models}
        objects = []
        for (program, name), number in self._run.functions.items():
            model, metrics = by_function.get((program, name)), self._metrics.get((program, name))
            objects.append(
                {
                    "app": program,
                    "fid": number,
                    "fname": name,
                    "runtime_profile": version2.runtime_profile(model, self._run) if model else None,
                    "anomaly_metrics": metrics.as_object() if metrics else None,
                }
            )
        return objects

    def _counter_statistics(self) -> list[version2.Object]:
        totals: dict[tuple[int, str], Moments] = {}
        for program, _, counter in self._provenance.counter_statistics():
            own = Moments(*msgspec.structs.astuple(counter)[1:])
            totals[program, counter.name] = totals.get((program, counter.name), Moments()).merge(own)
        return [
            {"app": program, "counter": name, "stats": version2.run_statistics(moments)}
            for (program, name), moments in sorted(totals.items(), key=lambda total: total[0])
        ]

    def _model_object(self, model: FunctionModel) -> version2.Object:
        return {
            "fid": self._run.functions[model.program, model.name],
            "pid": model.program,
            "func_name": model.name,
            "model": version2.algorithm_parameters(model, self._run),
        }


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(content))
