"""Places of the store and the statistics of a run while it goes on, and their way home.

SQLite's log does not work on a network file system: where the run's folder is on one, its store is on local
disk until the run ends. What the parts of a parameter server have learned becomes one model and one report.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from chimbuko.core.config import AnalysisConfig
from chimbuko.core.errors import ServiceError, StoreError
from chimbuko.core.files import write_atomically
from chimbuko.core.statistics.model import joined_models, load_model, save_model
from chimbuko.launcher.outcome.leftstatistics import merge_left
from chimbuko.launcher.outcome.recovery import bring_store_home, deliver_spools
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.pserver.state.runreport import Report, joined_reports, read_report, write_report
from chimbuko.runtime.runs.directory import RunDirectory, RunInfo
from chimbuko.runtime.runs.scratch import (
    SERVICES_PART,
    ScratchNote,
    agents_at_work,
    forget,
    is_on_network,
    note_run,
    rescued_folders,
    scratch_folder,
)


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
        except (OSError, StoreError, msgspec.MsgspecError) as error:
            raise ServiceError(f"{path}: the report of a part cannot be read ({error})") from error
    write_report(into, joined_reports(reports, str(model)))


class StorePlace:
    """The places of one run's store and statistics."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self.info = run.read_info()
        """Description of the run, as it was noted last."""
        self.scratch = scratch_folder(self.info.id, SERVICES_PART)
        """Folder on this node's own disk."""
        note_run(self.scratch, run)
        self._note = ScratchNote(run, SERVICES_PART, self.scratch)
        self.has_own_store = not run.store_url_path.exists()
        """Whether the store is a file of the run, and no database of somebody else."""
        self.url = run.store_url if self.has_own_store else run.used_store_url(self.info)
        self.is_elsewhere = self.has_own_store and is_on_network(run.path)
        """Whether the store is not where it will be in the end."""
        if self.is_elsewhere:
            self._move_to(f"sqlite:///{self.scratch / run.store_path.name}")
        self._rescued = rescued_folders(run)
        """Folders that agents of a run that goes on had left in the run's folder."""

    @property
    def shared_state_paths(self) -> list[Path]:
        """Files in the run's folder in which each part of the parameter server leaves what it knows for
        others.
        """
        return self._run.statistics_paths(self.info.config.server_parts)

    @property
    def state_paths(self) -> list[Path]:
        """Files on this node in which each part of the parameter server saves what it knows."""
        return [self.scratch / path.name for path in self.shared_state_paths]

    def open(self) -> list[str]:
        """Make the store, with all that is there already of a run that goes on.

        Returns
        -------
        list of str
            One line for each thing that is older than it should be.
        """
        lines = self._fetch_copies()
        self.write_info(self.info)
        for folder in self._rescued:
            deliver_spools(folder, self.info, self.url)
            merge_left(folder, self.info, self.state_paths)
        if self.is_elsewhere:
            self._note.write()
        return lines

    def write_info(self, info: RunInfo) -> None:
        """Note in the run's folder and in its store what became of the run."""
        self.info = info
        self._run.write_info(info)
        engine = open_for_writing(self.url)
        writer = Writer(engine, info.id)
        writer.write_run(info)
        if not self.has_own_store:
            writer.write_folder(self._run.path)
        close(engine)

    def bring_home(self) -> None:
        """Move the store into the run's folder; its writer has ended."""
        bring_store_home(self._run, self.scratch)
        self.is_elsewhere = False
        self._move_to(self._run.store_url)
        self.write_info(self.info)

    def leave_statistics(self) -> None:
        """Leave what is known beside what was learned and is not delivered yet.

        Raises
        ------
        OSError
            It cannot be written.
        """
        are_needed = agents_at_work(self._run)
        for shared, path in zip(self.shared_state_paths, self.state_paths, strict=True):
            shared.unlink(missing_ok=True)
            if are_needed and path.exists():
                write_atomically(shared, path.read_bytes())

    def learned_paths(self, part: int) -> tuple[Path, Path]:
        """Return the files in which one part of several leaves its model, and its report, at its end."""
        return self.scratch / f"model-{part}", self.scratch / f"report-{part}"

    def leaf_names_paths(self, leaf: int) -> list[Path]:
        """Return the files in which a leaf server keeps how agents have numbered their functions."""
        folders = [self.scratch, self._run.path] if self.is_elsewhere else [self.scratch]
        return [folder / f"leaf-{leaf}" for folder in folders]

    def join_parts(self, save_model: Path | None) -> None:
        """Make one model and one report of those of several parts of the parameter server; they have ended.

        Parameters
        ----------
        save_model
            Where a copy of the model goes.

        Raises
        ------
        ChimbukoError
            One of them did not leave its own, or there is no room.
        """
        config = self.info.config
        if config.server_parts > 1:
            models, reports = zip(*map(self.learned_paths, range(config.server_parts)), strict=True)
            join_models(models, config, [path for path in (self._run.model_path, save_model) if path])
            join_reports(reports, self._run.report_path, self._run.model_path)

    def clear(self) -> None:
        """Remove what the end of the run makes superfluous."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        for leaf in range(1, self.info.config.leaf_servers + 1):
            (self._run.path / f"leaf-{leaf}").unlink(missing_ok=True)
        self._note.remove()
        for folder in self._rescued:
            forget(self._run, folder)

    def _move_to(self, url: str) -> None:
        self.url = url
        self.info = msgspec.structs.replace(self.info, store_url=url)

    def _fetch_copies(self) -> list[str]:
        """Begin with what services that died on another node have left of store and statistics."""
        run, lines = self._run, []
        store = self.scratch / run.store_path.name
        statistics = zip(self.shared_state_paths, self.state_paths, strict=True)
        for copy, place in ((run.store_path, store), *statistics):
            if self.is_elsewhere and not place.exists() and copy.exists():
                at = time.strftime("%H:%M:%S", time.localtime(copy.stat().st_mtime))
                lines.append(f"{copy.name} goes on from its copy of {at}; what came later is lost")
                shutil.copyfile(copy, place)
        return lines
