"""What the parts of a parameter server have learned, as one model and one report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from chimbuko.core.config import AnalysisConfig
from chimbuko.core.errors import ServiceError
from chimbuko.core.statistics.model import joined_models, load_model, save_model
from chimbuko.pserver.state.runreport import Report, joined_reports, read_report, write_report


def join_models(paths: Sequence[Path], config: AnalysisConfig, into: Sequence[Path]) -> None:
    """Write the models of all parts as one, in order of program and function.

    Raises
    ------
    ConfigError
        One of them cannot be read, or the whole not be written.
    """
    whole = joined_models([load_model(path, config) for path in paths])
    for path in into:
        save_model(path, whole)


def join_reports(paths: Sequence[Path], into: Path, model: Path) -> None:
    """Write the reports of all parts as one.

    Raises
    ------
    ServiceError
        One of them cannot be read, or the whole not be written.
    """
    reports: list[Report] = []
    for path in paths:
        try:
            reports.append(read_report(path))
        except (OSError, EOFError, msgspec.MsgspecError) as error:
            raise ServiceError(f"{path}: the report of a part cannot be read ({error})") from error
    write_report(into, joined_reports(reports, str(model)))
