"""Registry of export formats: what a run recorded is written for other tools, into a new file or folder."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from chimbuko.core import plugins
from chimbuko.core.calls.record import CallRecord
from chimbuko.core.errors import ConfigError
from chimbuko.provenance.export.source import ExportSource
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance


class Exported(msgspec.Struct, frozen=True):
    """Summary of an export: what was written."""

    path: str
    anomalies: int
    normal_calls: int


@dataclass(frozen=True)
class Format:
    """Export format, and the function that writes it."""

    place: str
    """Function that writes it, as ``module:function``; a module that begins with a dot lies here."""
    purpose: str
    ending: str = ""
    """Ending of its file's name; empty if it writes a folder."""
    library: str = ""
    """Package that the format needs, which comes with the extra of Chimbuko of the same name."""

    @property
    def is_folder(self) -> bool:
        """Whether it writes several files into a folder."""
        return not self.ending

    @property
    def is_installed(self) -> bool:
        """Whether the library that the format needs is there."""
        return not self.library or importlib.util.find_spec(self.library) is not None

    def writer(self, name: str) -> Callable[..., None]:
        """Return the function that writes the calls of a source into an open file, or into an empty folder.

        Raises
        ------
        ConfigError
            The library that it needs is not installed.
        """
        try:
            writer: Callable[..., None] = plugins.imported(self.place, __package__)
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"--format {name} needs the package {self.library}, which is not installed: "
                f"pip install 'chimbuko[{name}]'"
            ) from error
        return writer


FORMATS = {
    "perfetto": Format(
        ".perfettotrace:write_perfetto", "timeline for ui.perfetto.dev", "pftrace", library="perfetto"
    ),
    "chrome": Format(".chrometrace:write_chrome", "timeline for chrome://tracing and others", "chrome.json"),
    "speedscope": Format(".speedscope:write_speedscope", "call stacks for speedscope.app", "speedscope.json"),
    "parquet": Format(
        ".parquet:write_parquet",
        "tables for pandas, Polars, DuckDB and other readers of Parquet",
        library="pyarrow",
    ),
    "otlp": Format(".otlp:write_otlp", "traces and logs for Jaeger, Tempo, Grafana and others"),
    "v2": Format(
        ".version2folder:write_version2", "records in JSON for scripts and viewers of Chimbuko's version 2"
    ),
}
"""Formats of our own, by name."""


def format_named(name: str) -> Format:
    """Return a format of our own or of a plugin.

    Raises
    ------
    ConfigError
        There is none of that name, or the plugin cannot be loaded.
    """
    if name in FORMATS:
        return FORMATS[name]
    if name in plugins.declared("exporters"):
        return plugins.load("exporters", name, Format)
    raise ConfigError(f"{name!r}: no format; there are {', '.join(format_names())}")


def format_names() -> list[str]:
    """Return the names of all formats, those of plugins last."""
    return [*FORMATS, *(name for name in plugins.declared("exporters") if name not in FORMATS)]


def export(
    provenance: Provenance,
    form: str,
    path: Path,
    wanted: CallFilter,
    on_call: Callable[[CallRecord], None] = lambda call: None,
) -> Exported:
    """Write calls of a run, with all that is known of them, in the format of this name.

    Parameters
    ----------
    path
        A new file, or a new or empty folder, as the format is.
    wanted
        Filter of the calls; others come with their windows and call stacks.
    on_call
        Called with each call, to show progress.

    Raises
    ------
    ConfigError
        There is no such format, the file exists, the folder holds something, they cannot be written, or a
        library is missing.
    StoreError
        The store cannot be read.
    """
    chosen = format_named(form)
    writer = chosen.writer(form)
    source = ExportSource(provenance, wanted, on_call)
    try:
        if chosen.is_folder:
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise ConfigError(f"{path}: holds files already; choose a new or empty folder")
            writer(source, path)
        else:
            _write_file(writer, source, path)
    except FileExistsError as error:
        raise ConfigError(f"{path}: exists already; choose another name, or remove it") from error
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be written ({error.strerror or error}); choose another place"
        ) from error
    return Exported(str(path), source.anomalies, source.normal_calls)


def _write_file(writer: Callable[..., Any], source: ExportSource, path: Path) -> None:
    """Write a file that did not exist, and leave nothing of it where that fails."""
    with path.open("xb") as file:
        try:
            writer(source, file)
            file.flush()
        except BaseException:
            path.unlink()
            raise
