"""TAU's settings: select files, and what application and writer are given."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.capture.trace.discovery import Transport, find_live, parse_stream_path
from chimbuko.capture.trace.tausettings import (
    SST_TIMERS,
    Patterns,
    TimerFilter,
    WriterSettings,
    application_settings,
    claim,
)
from chimbuko.core.errors import ConfigError
from tests.patience import PATIENCE_S

SST_TIMER = "SstWriter::EndStep [{/src/adios2/toolkit/sst/sst.cpp} {10,0}]"


def select_file(folder: Path, text: str) -> Path:
    path = folder / "select.txt"
    path.write_text(text)
    return path


LIVE_TRANSPORTS = [Transport.FILES, Transport.SST]
STREAM_APPEARS_AS = {
    Transport.FILES: "tau-metrics-app-0.bp/md.idx",
    Transport.SST: "tau-metrics-app-0.bp.sst",
}


def settings_for(
    folder: Path, environment: dict[str, str] | None = None, transport: Transport = Transport.SST
) -> dict[str, str]:
    return application_settings(folder, folder / "trace", 500_000, environment or {}, transport)


@pytest.mark.parametrize(
    ("patterns", "allowed", "refused"),
    [
        (Patterns(), ["MPI_Send()", ""], []),
        (Patterns(exclude=("MPI_#",)), ["main"], ["MPI_Send()", "MPI_"]),
        (Patterns(include=("MPI_#", "main")), ["MPI_Send()", "main"], ["relax", "main2"]),
        (Patterns(include=("solve",), exclude=("s#",)), ["solve"], ["step"]),
        (Patterns(include=("MPI_#",), exclude=("MPI_Send?)",)), ["MPI_Send"], ["MPI_Send()", "MPI_Send))"]),
        (Patterns(exclude=(SST_TIMERS,)), ["adios2::Engine"], [SST_TIMER]),
        (Patterns(exclude=("f [{a.c} {1,0}]",)), ["f [{b.c} {1,0}]"], ["f [{a.c} {1,0}]"]),
    ],
)
def test_patterns_decide_as_tau_does(patterns: Patterns, allowed: list[str], refused: list[str]) -> None:
    assert all(patterns.allows(name) for name in allowed)
    assert not any(patterns.allows(name) for name in refused)


names = st.text("abMPI_#?()[]{}. *\\", min_size=1, max_size=12).map(str.strip).filter(bool)


@given(st.tuples(names), st.lists(names, max_size=3).map(tuple), st.lists(names, max_size=2).map(tuple))
def test_select_file_round_trip(
    tmp_path_factory: pytest.TempPathFactory,
    included: tuple[str, ...],
    excluded: tuple[str, ...],
    counters: tuple[str, ...],
) -> None:
    written = TimerFilter(Patterns(included, excluded), Patterns(exclude=counters))
    path = select_file(tmp_path_factory.mktemp("select"), written.text())
    assert TimerFilter.from_file(path) == written


def test_hash_begins_a_comment_only_outside_sections(tmp_path: Path) -> None:
    path = select_file(tmp_path, "# all of MPI goes\n\nBEGIN_EXCLUDE_TIMERS\n  #MPI#  \nEND_EXCLUDE_TIMERS\n")
    assert TimerFilter.from_file(path).timers.exclude == ("#MPI#",)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("main\n", 1),
        ("BEGIN_EXCLUDE_TIMERS\nmain\nEND_INCLUDE_TIMERS\n", 3),
        ("BEGIN_EXCLUDE_TIMERS\nBEGIN_EXCLUDE_COUNTERS\n", 2),
        ("END_EXCLUDE_TIMERS\n", 1),
        ("BEGIN_INCLUDE_COUNTERS\nPAPI#\n", 2),
    ],
)
def test_faulty_select_file_is_named_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    path = select_file(tmp_path, text)
    with pytest.raises(ConfigError) as raised:
        TimerFilter.from_file(path)
    assert str(raised.value).startswith(f"{path}:{line}: ")
    assert "\n" not in str(raised.value)


def test_missing_select_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        TimerFilter.from_file(tmp_path / "none")


def test_application_settings_over_files_are_those_of_a_bp5_stream(tmp_path: Path) -> None:
    environment = settings_for(tmp_path, transport=Transport.FILES)
    config = Path(environment["TAU_ADIOS2_CONFIG_FILE"]).read_text()
    assert '<engine type="BP5">' in config
    assert '<parameter key="StatsLevel" value="0"/>' in config
    assert "Rendezvous" not in config
    assert environment["TAU_ADIOS2_ENGINE"] == "BP5"
    assert environment["TAU_ADIOS2_FILENAME"] == str(tmp_path / "trace" / "tau-metrics")
    assert environment["TAU_ADIOS2_PERIOD"] == "500000"


def test_application_settings_keep_sst_timers_out_and_never_wait(tmp_path: Path) -> None:
    environment = settings_for(tmp_path)
    chosen = TimerFilter.from_file(Path(environment["TAU_ADIOS2_SELECT_FILE"]))
    assert not chosen.allows_timer(SST_TIMER)
    assert chosen.allows_timer("main")
    config = Path(environment["TAU_ADIOS2_CONFIG_FILE"]).read_text()
    assert '<io name="TAU trace data">' in config
    assert '<parameter key="RendezvousReaderCount" value="0"/>' in config
    # Whoever joins late begins with the names, which TAU tells once.
    assert '<parameter key="FirstTimestepPrecious" value="true"/>' in config
    assert '<parameter key="FirstTimestepPrecious" value="true"/>' in config
    assert environment["TAU_ADIOS2_FILENAME"] == str(tmp_path / "trace" / "tau-metrics")
    assert environment["TAU_ADIOS2_PERIOD"] == "500000"


def test_users_select_file_is_merged(tmp_path: Path) -> None:
    path = select_file(
        tmp_path,
        "BEGIN_INCLUDE_TIMERS\nMPI_#\nEND_INCLUDE_TIMERS\nBEGIN_EXCLUDE_COUNTERS\nPAPI#\nEND_EXCLUDE_COUNTERS\n",
    )
    environment = settings_for(tmp_path, {"TAU_ADIOS2_SELECT_FILE": str(path)})
    merged = TimerFilter.from_file(Path(environment["TAU_ADIOS2_SELECT_FILE"]))
    assert merged.allows_timer("MPI_Send()")
    assert not merged.allows_timer("main")
    assert not merged.allows_timer(SST_TIMER)
    assert not merged.allows_counter("PAPI_TOT_INS")


@pytest.mark.parametrize(("transport", "engine"), [(Transport.FILES, "BP5"), (Transport.SST, "SST")])
def test_users_harmless_choices_win_and_others_do_not(
    tmp_path: Path, transport: Transport, engine: str
) -> None:
    environment = settings_for(
        tmp_path,
        {"TAU_THROTTLE": "1", "TAU_ADIOS2_ENGINE": "BPFile", "TAU_ADIOS2_CONFIG_FILE": "block.xml"},
        transport,
    )
    assert environment["TAU_THROTTLE"] == "1"
    assert environment["TAU_TRACK_MESSAGE"] == "1"
    assert environment["TAU_ADIOS2_ENGINE"] == engine
    assert environment["TAU_ADIOS2_CONFIG_FILE"] != "block.xml"


def test_settings_folder_that_is_not_there_is_a_one_line_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        settings_for(tmp_path / "missing")


@pytest.mark.parametrize(("transport", "engine"), [(Transport.FILES, "BP5"), (Transport.SST, "SST")])
def test_writer_follows_application_settings(tmp_path: Path, transport: Transport, engine: str) -> None:
    settings = WriterSettings.from_environment(settings_for(tmp_path, transport=transport))
    assert settings.engine == engine
    assert settings.is_periodic
    assert settings.period_us == 500_000
    assert settings.config_file == tmp_path / f"adios2-{transport}.xml"
    assert settings.stream_path("app", 3) == tmp_path / "trace" / "tau-metrics-app-3.bp"
    assert not settings.select.allows_timer(SST_TIMER)


def test_writer_without_any_settings_writes_a_file_here() -> None:
    settings = WriterSettings.from_environment({})
    assert settings.engine == "BPFile"
    assert settings.stream_path("app", 0) == Path("tau-metrics-app-0.bp").absolute()
    assert settings.config_file is None


@pytest.mark.parametrize(
    ("prefix", "name"),
    [
        ("tau-metrics", "tau-metrics.6-app-1.bp"),
        ("tau-metrics.4", "tau-metrics.10-app-1.bp"),
        ("tau-metrics.train", "tau-metrics.train.6-app-1.bp"),
        ("tau-metrics.train.4", "tau-metrics.train.10-app-1.bp"),
    ],
)
def test_further_processes_are_numbered_in_the_prefix(tmp_path: Path, prefix: str, name: str) -> None:
    settings = WriterSettings.from_environment({"TAU_ADIOS2_FILENAME": str(tmp_path / prefix)})
    assert settings.stream_path("app", 1, 0).name == f"{prefix}-app-1.bp"
    path = settings.stream_path("app", 1, 6)
    assert path.name == name
    stream = parse_stream_path(path)
    first = parse_stream_path(settings.stream_path("app", 1))
    assert stream is not None and first is not None
    assert (stream.program, stream.rank) == (first.program, first.rank + 6)


def test_a_rank_is_claimed_once_however_it_is_named(tmp_path: Path) -> None:
    assert claim(tmp_path / "tau-metrics.2-app-1.bp")
    assert not claim(tmp_path / "tau-metrics-app-3.bp")
    assert claim(tmp_path / "tau-metrics-other-3.bp")
    assert find_live(tmp_path) == []


@pytest.mark.parametrize("name", ["chimbuko-0123456789ab-node1", "chimbuko-overhead-x1"])
def test_the_folder_of_a_run_that_has_ended_is_not_made_again(name: str, tmp_path: Path) -> None:
    stream = tmp_path / name / "tau-metrics-app-0.bp"
    with pytest.raises(ConfigError, match="the run has ended"):
        claim(stream)
    assert not stream.parent.exists()
    stream.parent.mkdir()
    assert claim(stream)


def test_a_claim_without_a_folder_is_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be claimed"):
        claim(tmp_path / "file" / "tau-metrics-app-0.bp")


@pytest.mark.parametrize("period", ["0", "-1", "soon", "1.5"])
def test_bad_period_is_an_error(period: str) -> None:
    with pytest.raises(ConfigError, match="TAU_ADIOS2_PERIOD"):
        WriterSettings.from_environment({"TAU_ADIOS2_PERIOD": period})


@pytest.mark.parametrize("transport", LIVE_TRANSPORTS)
def test_written_settings_are_taken_by_adios2(tmp_path: Path, transport: Transport) -> None:
    (tmp_path / "trace").mkdir()
    settings = WriterSettings.from_environment(settings_for(tmp_path, transport=transport))
    with settings.open("app", 0):
        # A thread of ADIOS2's own opens the files.
        give_up = time.monotonic() + PATIENCE_S
        while not (tmp_path / "trace" / STREAM_APPEARS_AS[transport]).exists():
            assert time.monotonic() < give_up
            time.sleep(0.01)
        ((stream, found),) = find_live(tmp_path / "trace")
        assert (stream.program, stream.rank, found) == ("app", 0, transport)
