"""Options of the analysis and the file that they win over."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner

from chimbuko.ad.detectors import make_detector
from chimbuko.cli.shared.analysis import analysis_options
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.errors import ConfigError
from chimbuko.core.statistics.model import Model, save_model
from chimbuko.launcher.options import AnalysisOptions


def options_of(*arguments: str) -> AnalysisOptions:
    """What a command gets."""
    got: list[AnalysisOptions] = []

    @click.command()
    @analysis_options
    @click.option("--other", default=1)
    def command(analysis: AnalysisOptions, other: int) -> None:
        assert other == 1
        got.append(analysis)

    result = CliRunner().invoke(command, list(arguments), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return got[0]


def config_of(*arguments: str) -> AnalysisConfig:
    return options_of(*arguments).config


def test_without_options_everything_is_as_usual() -> None:
    assert options_of() == AnalysisOptions()


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [
        ("--detector hbos --threshold 0.95", {"detector": "hbos", "threshold": 0.95}),
        (
            "--threshold-of MPI_*=8 --threshold-of operator===2.5",
            {"thresholds": (("MPI_*", 8.0), ("operator==", 2.5))},
        ),
        ("--ignore main --ignore MPI_*", {"ignore": ("main", "MPI_*")}),
        ("--metric inclusive --fast-side", {"metric": "inclusive", "fast_side": True}),
        ("--min-anomaly 200us", {"min_anomaly_us": 200}),
        ("--min-anomaly 5ms", {"min_anomaly_us": 5000}),
        ("--window 3 --period 0.5", {"window_calls": 3, "period_us": 500_000}),
        ("--no-node-samples", {"node_samples": False}),
        ("--record-steps 5:10", {"record_from_step": 5, "record_to_step": 10}),
        ("--record-steps 5:", {"record_from_step": 5}),
        ("--record-steps :10", {"record_to_step": 10}),
    ],
)
def test_options_become_settings(arguments: str, changes: dict[str, object]) -> None:
    assert config_of(*arguments.split()) == msgspec.structs.replace(AnalysisConfig(), **changes)


def test_files_of_the_cpp_chimbuko_are_taken(tmp_path: Path) -> None:
    files = {
        "thresholds": '[{"fname": "MPI_Send()", "threshold": 0.995}, {"fname": "main", "threshold": 0.9}]',
        "ignored": "main\n\n# what begins once\nMPI_Init()\n",
        "watched": '[["monitoring: CPU user %", "cpu_user"], ["PAPI_L1", "l1"]]',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found = config_of(
        *("--threshold-of", f"@{tmp_path / 'thresholds'}", "--threshold-of", "solve=5"),
        *(
            "--ignore",
            f"@{tmp_path / 'ignored'}",
            "--watch",
            f"@{tmp_path / 'watched'}",
            "--watch",
            "power: ",
        ),
        *("--uncorrelated", f"@{tmp_path / 'ignored'}"),
    )
    assert found.thresholds == (("MPI_Send()", 0.995), ("main", 0.9), ("solve", 5.0))
    assert found.ignore == found.uncorrelated == ("main", "MPI_Init()")
    assert found.watched_counters == ("monitoring: CPU user %", "PAPI_L1", "power: ")
    assert found.counter_fields == (("monitoring: CPU user %", "cpu_user"), ("PAPI_L1", "l1"))
    (tmp_path / "thresholds").write_text('{"main": 5}')
    with pytest.raises(ConfigError, match="thresholds: not a list like"):
        config_of("--threshold-of", f"@{tmp_path / 'thresholds'}")


SETTINGS = """
detector = "sstd"
threshold = 5
ignore = ["main"]
fast_side = true
watched_counters = ["cpu: "]
node_samples = false
[thresholds]
"MPI_*" = 8
"solve" = 4.5
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(SETTINGS)
    return path


def test_a_file_gives_settings_and_options_win(file: Path) -> None:
    from_file = AnalysisConfig(
        detector="sstd",
        threshold=5.0,
        thresholds=(("MPI_*", 8.0), ("solve", 4.5)),
        ignore=("main",),
        fast_side=True,
        watched_counters=("cpu: ",),
        node_samples=False,
    )
    assert config_of("--config", str(file)) == from_file
    chosen = config_of(
        *("--config", str(file), "--threshold", "7", "--ignore", "relax", "--no-fast-side", "--window", "2")
    )
    assert chosen == msgspec.structs.replace(
        from_file, threshold=7.0, ignore=("relax",), fast_side=False, window_calls=2
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("detectr = 'sstd'", "detectr unknown; there are detector, threshold, "),
        ("detector = sstd", "not TOML"),
        ("threshold = 'high'", "Expected `float | null`, got `str` - at `\\$.threshold`"),
        ("detector = 'best'", "'best' is unknown"),
        ("period_us = 0", "the period must not be 0"),
        ("window_calls = -1", "the window must not be -1"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_line(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=error) as raised:
        config_of("--config", str(path))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("--config none.toml", "none.toml: cannot be read"),
        ("--threshold-of MPI_*", "not NAME=VALUE"),
        ("--threshold-of MPI_*=high", "not NAME=VALUE"),
        ("--threshold-of =3", "not NAME=VALUE"),
        ("--threshold 0", "must be positive"),
        ("--threshold-of main=-1", "must be positive"),
        ("--record-steps 5", "not a range of steps"),
        ("--record-steps 10:5", "no step is from 10 to 5"),
        ("--min-anomaly soon", "not a duration"),
        ("--period 0", "the period must not be 0"),
        ("--freeze", "goes with --load-model"),
        ("--load-model none", "none: the model cannot be read"),
        ("--save-model none/model", "none/model: the model cannot be written, its folder does not exist"),
    ],
)
def test_what_is_wrong_on_the_command_line_is_one_line(arguments: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        config_of(*arguments.split())


def test_a_model_is_looked_at_before_anything_starts(tmp_path: Path) -> None:
    path = tmp_path / "model"
    schema = make_detector(AnalysisConfig()).schema
    save_model(path, Model("robust", "exclusive", [("heat", "main")], schema.empty(1)))
    options = options_of("--load-model", str(path), "--freeze", "--save-model", "copy", "--relabel")
    assert options.config.is_frozen and options.relabel
    assert (options.load_model, options.save_model) == (path, Path("copy"))
    with pytest.raises(ConfigError, match="a model for --detector robust --metric exclusive"):
        options_of("--load-model", str(path), "--detector", "sstd")
