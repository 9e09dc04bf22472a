"""The words with which the processes of the services are started, and their secrets."""

from __future__ import annotations

import os

from chimbuko.launcher.services.choices import ServiceOptions
from chimbuko.launcher.services.storeplace import StorePlace
from chimbuko.process.service import Service
from chimbuko.process.starting import fork
from chimbuko.protocol.broker import BROKER_VARIABLE
from chimbuko.protocol.metricsplace import TOKEN_VARIABLE
from chimbuko.provenance.write.__main__ import STORE_VARIABLE
from chimbuko.runs.directory import RunDirectory
from chimbuko.runs.secretfiles import kept_token


def parameter_server(
    run: RunDirectory, options: ServiceOptions, place: StorePlace, broker_url: str
) -> Service:
    """What merges statistics and learns."""
    config, metrics = options.config, options.choices.metrics
    words = ["--run-id", place.info.id, "--lockstep-streams", str(options.lockstep_streams)]
    words += ["--detector", config.detector, "--metric", config.metric]
    words += ["--state", str(place.state_path)]
    if place.is_elsewhere:
        words += ["--state-copy", str(run.statistics_path)]
    if options.load_model is not None:
        words += ["--load-model", str(options.load_model)]
    if config.is_frozen:
        words.append("--freeze")
    for path in (run.model_path, options.save_model):
        if path is not None:
            words += ["--save-model", str(path)]
    words += ["--report", str(run.report_path)]
    secret = {BROKER_VARIABLE: broker_url}
    if metrics is not None:
        words += ["--metrics", metrics]
        secret[TOKEN_VARIABLE] = kept_token(run.metrics_token_path, os.environ.get(TOKEN_VARIABLE))
    return Service("pserver", "chimbuko.pserver", words, secret, run.logs, start=fork)


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
