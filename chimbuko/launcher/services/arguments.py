"""The words with which the processes of the services are started, and their secrets."""

from __future__ import annotations

import os

from chimbuko.launcher.services.choices import ServiceOptions
from chimbuko.launcher.services.storeplace import StorePlace
from chimbuko.observe.namespaces.exchange.place import PLACE_VARIABLE
from chimbuko.provenance.store.urls import STORE_VARIABLE
from chimbuko.runtime.process.service import Service
from chimbuko.runtime.process.starting import fork
from chimbuko.runtime.protocol.broker import BROKER_VARIABLE
from chimbuko.runtime.protocol.metricsplace import TOKEN_VARIABLE, metrics_of_part
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.runtime.runs.secretfiles import kept_token


def parameter_server(
    run: RunDirectory, options: ServiceOptions, place: StorePlace, broker_url: str
) -> list[Service]:
    """What merges statistics and learns: each of its parts."""
    parts = options.config.server_parts
    return [_part_of_server(run, options, place, broker_url, part) for part in range(parts)]


def _part_of_server(
    run: RunDirectory, options: ServiceOptions, place: StorePlace, broker_url: str, part: int
) -> Service:
    config, metrics = options.config, options.choices.metrics
    words = ["--run-id", place.info.id, "--lockstep-streams", str(options.lockstep_streams)]
    words += ["--part", str(part), "--parts", str(config.server_parts)]
    words += ["--detector", config.detector, "--metric", config.metric]
    words += ["--state", str(place.state_paths[part])]
    if place.is_elsewhere:
        words += ["--state-copy", str(place.shared_state_paths[part])]
    if options.load_model is not None:
        words += ["--load-model", str(options.load_model)]
    if config.is_frozen:
        words.append("--freeze")
    models, report = [run.model_path, options.save_model], run.report_path
    if config.server_parts > 1:
        model, report = place.learned_paths(part)
        models = [model]
    for path in models:
        if path is not None:
            words += ["--save-model", str(path)]
    words += ["--report", str(report)]
    secret = {BROKER_VARIABLE: broker_url}
    if metrics is not None:
        words += ["--metrics", metrics_of_part(metrics, part)]
        secret[TOKEN_VARIABLE] = kept_token(run.metrics_token_path, os.environ.get(TOKEN_VARIABLE))
    name = f"pserver-{part}" if part else "pserver"
    return Service(name, "chimbuko.pserver", words, secret, run.logs, start=fork)


def metric_watch(
    run: RunDirectory, options: ServiceOptions, place: StorePlace, broker_url: str
) -> list[Service]:
    """What watches what programs publish of their computation; nothing where they have nowhere to publish."""
    namespaces = options.choices.namespaces
    if namespaces is None:
        return []
    words = ["--run-id", place.info.id, "--since-us", str(place.info.started_us)]
    words += ["--views", str(run.observed_path), "--parts", str(options.config.server_parts)]
    secret = {BROKER_VARIABLE: broker_url, PLACE_VARIABLE: namespaces}
    return [
        Service(
            "metricwatch", "chimbuko.observe.namespaces.service.watching", words, secret, run.logs, start=fork
        )
    ]


def store_writer(run: RunDirectory, options: ServiceOptions, place: StorePlace, broker_url: str) -> Service:
    """What writes the store, and alerts people."""
    alerts = options.choices.alerts
    words = ["--run-id", place.info.id]
    if place.has_own_store:
        words += ["--own", str(run.path)]
    if place.is_elsewhere:
        words += ["--copy", str(run.store_path)]
    secret = {BROKER_VARIABLE: broker_url, STORE_VARIABLE: place.url}
    if alerts is not None:
        words += ["--alert-us", str(alerts.least_us)]
        secret |= alerts.hooks
    return Service("provenance", "chimbuko.provenance.write", words, secret, run.logs, start=fork)
