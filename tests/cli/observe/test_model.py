"""``chimbuko model``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chimbuko.cli import main

WORKFLOW = """
steps = 100
parameter = "ranks"
total = 64
[[tasks]]
name = "image"
every = 5
step = "2.0 + 4.0 / ranks"
"""
POINTS = "ranks,time_ms\n" + "".join(f"{ranks},{5 + 32_000 / ranks}\n" for ranks in (4, 8, 16, 32, 64))
PNG = b"\x89PNG\r\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workflow.toml").write_text(WORKFLOW)
    (tmp_path / "points.csv").write_text(POINTS)
    return tmp_path


def model(*words: str) -> Result:
    return CliRunner().invoke(main, ["model", *words])


def test_points_are_a_table_to_fill_in(files: Path) -> None:
    lines = model("points", "ranks=4,8,16,32,64", "threads=1,2,3,4,5").stdout.splitlines()
    assert lines[0] == "ranks,threads,time_s"
    assert len(lines) == 12
    (files / "empty.csv").write_text("\n".join(lines))
    assert "line 2: time_s is ''" in model("fit", "empty.csv").stderr


def test_a_fit_is_tried_on_points_that_were_held_out(files: Path) -> None:
    (files / "more.csv").write_text("ranks,time_s\n24,1.3\n48,0.7\n128,0.3\n")
    found = model("fit", "points.csv", "--held-out", "more.csv")
    assert "0.005 + 32 * ranks^-1" in found.stdout
    assert "Points that were held out" in found.stdout
    said = "application: ranks = 128 is taken as 64, the end of what was measured"
    assert said in found.stdout
    (one,) = json.loads(model("fit", "points.csv", "--held-out", "more.csv", "--json").stdout)
    assert one["terms"][1]["coefficient"] == pytest.approx(32.0)
    assert one["held_out"]["points"] == 3
    assert one["held_out"]["clamps"] == [said]
    assert one["held_out"]["max_relative_error"] == pytest.approx(0.505 / 0.3 - 1)
    assert one["points"][0]["interval_s"] == pytest.approx([8.005, 8.005])


def test_predictions_are_compared_with_runs(files: Path) -> None:
    (files / "runs.csv").write_text("placement,time_s\nall=sync,95\nimage=8,60\n")
    words = ("predict", "workflow.toml", "--points", "points.csv")
    found = json.loads(model(*words, "--placement", "image=4", "--measured", "runs.csv", "--json").stdout)
    assert [one["placement"] for one in found["predictions"]] == ["image=4", "all=sync", "image=8"]
    assert [one.get("measured_s") for one in found["predictions"]] == [None, 95.0, 60.0]
    assert found["predictions"][1]["total_s"] == pytest.approx(100 * (0.505 + (2 + 4 / 64) / 5))
    assert found["agreement"]["points"] == 2
    printed = model(*words, "--placement", "image=4", "--measured", "runs.csv").stdout
    assert "2 runs: R² " in printed
    titles, not_measured, *others = printed.splitlines()
    assert "MEASURED" in titles
    assert not_measured.split()[0] == "image=4" and len(not_measured.split()) < len(others[0].split())


def test_without_a_placement_all_is_inside(files: Path) -> None:
    assert "all=sync" in model("predict", "workflow.toml", "--points", "points.csv").stdout


def test_advice_names_the_best_and_what_it_is_compared_with(files: Path) -> None:
    found = json.loads(model("advise", "workflow.toml", "--points", "points.csv", "--json").stdout)
    assert found["best"] == found["ranked"][0]
    assert found["best"]["approach"] == "asynchronous"
    assert found["compared"] > len(found["ranked"]) == 10
    low, high = found["best"]["interval_s"]
    assert low <= found["best"]["total_s"] * (1 + 1e-9)
    assert found["best"]["total_s"] <= high * (1 + 1e-9)


def test_without_measurements_there_is_no_interval(files: Path) -> None:
    (files / "published.toml").write_text(WORKFLOW + '[application]\nstep = "32 / ranks"\n')
    assert "(no interval)" in model("advise", "published.toml").stdout
    assert json.loads(model("advise", "published.toml", "--json").stdout)["best"]["interval_s"] is None


@pytest.mark.thorough
@pytest.mark.parametrize(
    "words",
    [
        ["fit", "points.csv"],
        ["fit", "two.csv"],
        ["advise", "workflow.toml", "--points", "points.csv"],
        ["predict", "workflow.toml", "--points", "points.csv", "--measured", "runs.csv"],
    ],
    ids=" ".join,
)
def test_pictures_are_written(files: Path, words: list[str]) -> None:
    (files / "runs.csv").write_text("placement,time_s\nall=sync,95\nimage=8,60\n")
    points = {(4, 2**at) for at in range(5)} | {(2**at, 1) for at in range(2, 7)} | {(8, 4), (64, 16)}
    rows = "".join(f"{ranks},{threads},{9 / ranks + 1 / threads}\n" for ranks, threads in sorted(points))
    (files / "two.csv").write_text("ranks,threads,time_s\n" + rows)
    done = model(*words, "--plot", "picture.png")
    assert done.exit_code == 0, done.stderr
    assert (files / "picture.png").read_bytes().startswith(PNG)


def test_a_picture_without_matplotlib_says_what_to_install(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = model("fit", "points.csv", "--plot", "picture.png")
    assert (done.exit_code, done.stderr) == (
        2,
        "chimbuko: a picture needs matplotlib: pip install 'chimbuko[plots]'\n",
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit", "none.csv"], "none.csv: No such file"),
        (["fit", "workflow.toml"], "one column of times is needed"),
        (["fit", "points.csv", "--held-out", "image.csv"], "no model of 'image'; there are application"),
        (["fit", "points.csv", "--plot", "none/picture.png"], "none/picture.png: No such file"),
        (["points", "ranks=1,2"], "ranks: 2 different values; a model needs 5"),
        (["advise", "workflow.toml"], "no model of 'application'"),
        (["advise", "points.csv"], "points.csv: no TOML"),
        (
            ["predict", "workflow.toml", "--points", "points.csv", "--placement", "image=64"],
            "there is room for 63",
        ),
        (
            ["predict", "workflow.toml", "--points", "points.csv", "--plot", "x.png"],
            "give these with --measured",
        ),
        (
            ["predict", "workflow.toml", "--points", "points.csv", "--measured", "points.csv"],
            "no column 'placement'",
        ),
        (
            ["predict", "workflow.toml", "--points", "points.csv", "--measured", "runs.csv"],
            "runs.csv: 'image=8' took 0.06 s, and 60.1 s are predicted; are their units mixed?",
        ),
    ],
)
def test_what_cannot_be_used_gets_one_line(files: Path, words: list[str], said: str) -> None:
    (files / "image.csv").write_text("part,ranks,time_s\nimage,2,1\n")
    (files / "runs.csv").write_text("placement,time_ms\nall=sync,95000\nimage=8,60\n")
    done = model(*words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("option", ["--period", "--rows", "--agent-cores", "--findings"])
@pytest.mark.parametrize("value", ["-1", "inf"])
def test_what_no_run_can_have_is_named_as_it_was_given(option: str, value: str) -> None:
    found = model("pipeline", "--ranks", "10", option, value)
    assert found.exit_code == 2
    assert f"Invalid value for '{option}': {float(value)} is not in the range" in found.stderr


def test_what_a_pipeline_asks_of_its_parts_is_json_too() -> None:
    found = json.loads(model("pipeline", "--ranks", "100000", "--json").stdout)
    assert found["bottleneck"]["share"] > 1.0
    assert found["parts"][0]["load"]["part"] == "readers"
    assert 0.0 < found["put_off_share"] <= 1.0
