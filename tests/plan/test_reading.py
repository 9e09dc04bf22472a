"""Measurements and workflows as users write them, also wrongly."""

from __future__ import annotations

import pytest

from chimbuko.core.errors import ConfigError
from chimbuko.plan.fitting import fit
from chimbuko.plan.reading import (
    parse_choices,
    parse_measured_runs,
    parse_points,
    parse_table,
    workflow_of,
)

POINTS = """# of two parts, which depend on different things
part,ranks,megabytes,time_ms
application,8,,1000
application, 8,,1200

application,16,,600
image,,10,50
"""
WORKFLOW = 'steps = 10\nparameter = "ranks"\ntotal = 8\n'


def test_points_are_read_by_part_in_seconds() -> None:
    found = parse_points(POINTS, "points.csv")
    assert list(found) == ["application", "image"]
    assert found["application"].parameters == ("ranks",)
    assert found["application"].time_s.tolist() == [1.1, 0.6]
    assert found["image"].columns()["megabytes"].tolist() == [10.0]


def test_without_parts_all_is_the_application() -> None:
    assert list(parse_points("ranks,time_s\n1,2\n", "x")) == ["application"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no rows"),
        ("ranks,time_s\n", "no rows"),
        ("ranks,time\n1,2\n", "time_s, time_ms, time_us or time_min; found time$"),
        ("ranks,seconds\n1,2\n", "found none"),
        ("ranks,time_s,time_ms\n1,2,3\n", "found time_s, time_ms"),
        ("ranks,ranks,time_s\n1,2,3\n", "twice the same"),
        ("ranks,time_s\n1,2\n1\n", "line 3: 1 cell under 2 headings"),
        (
            "ranks,time_s\n1,12ms\n",
            "line 2: time_s is '12ms', which is no number; the unit stands in the heading",
        ),
        ("ranks,time_s\n1,abc\n", "line 2: time_s is 'abc', which is no number$"),
        ("ranks,time_s\n\n1,nan\n", "line 3: time_s is nan; values and times are positive"),
        ("ranks,time_s\n1,-2\n", "line 2: time_s is -2"),
        ("ranks,time_s\n1,inf\n", "time_s is inf"),
        ("ranks,time_s\n0,2\n", "ranks is 0"),
        ("ranks,threads,time_s\n1,1,2\n2,,2\n", "line 3: threads is '', which is no number"),
        ("part,time_s\na,2\n", "no parameter of a"),
        ("ranks,time_s\n1,1.5\n1,1500\n", "are their units mixed"),
        (
            "ranks,time_s\n8,5.2\n16,2.6\n32,1300\n64,650\n",
            "2.6 s at ranks = 16, and 1300 s at ranks = 32; are",
        ),
        ("n,m,time_s\n1,1,1\n1,2,0.5\n1,4,250\n2,1,1\n", "0.5 s at m = 2, and 250 s at m = 4; are their"),
        ('ranks,time_s\n"1,2\n', "1 cell under 2"),
    ],
)
def test_points_that_cannot_be_used_are_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        parse_points(text, "points.csv")
    assert "\n" not in str(refused.value)


def test_models_come_from_the_description_or_from_points() -> None:
    table = parse_table(
        WORKFLOW + '[application]\ninit = "2"\n[[tasks]]\nname = "image"\nevery = 2\nstep = "1 / ranks"\n',
        "w",
    )
    points = parse_points("ranks,time_s\n" + "".join(f"{n},{8 / n}\n" for n in (1, 2, 4, 6, 8)), "p")
    fitted = {part: fit(measured).model for part, measured in points.items()}
    workflow = workflow_of(table, fitted, "w")
    assert workflow.application.step.at({"ranks": 4.0}).time_s == pytest.approx(2.0)
    assert workflow.application.init.at({}).time_s == 2.0
    assert workflow.replicates == 200
    assert [(task.name, task.every) for task in workflow.tasks] == [("image", 2)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("steps = ", "no TOML"),
        ('steps = 0\nparameter = "ranks"\ntotal = 8\n', r"`\$.steps`"),
        ("steps = 1\ntotal = 8\n", "parameter"),
        (WORKFLOW + "speed = 3\n", "speed"),
        (WORKFLOW + '[[tasks]]\nname = "a b"\n', r"tasks\[0\].name"),
        (WORKFLOW + '[[tasks]]\nname = "a"\n[[tasks]]\nname = "a"\n', "two parts are called 'a'"),
        (WORKFLOW + '[[tasks]]\nname = "a"\nevery = 0\n', "every"),
    ],
)
def test_workflows_that_are_none_are_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_table(text, "workflow.toml")


def test_a_part_without_a_model_and_points_of_no_part_are_named() -> None:
    with pytest.raises(ConfigError, match="no model of 'application'"):
        workflow_of(parse_table(WORKFLOW, "w"), {}, "w")
    table = parse_table(WORKFLOW + '[application]\nstep = "1"\n', "w")
    points = parse_points("part,ranks,time_s\n" + "".join(f"picture,{n},{8 / n}\n" for n in range(1, 6)), "p")
    with pytest.raises(ConfigError, match="points of 'picture', which is no part of it"):
        workflow_of(table, {part: fit(measured).model for part, measured in points.items()}, "w")


def test_measured_runs_have_placements() -> None:
    assert parse_measured_runs("placement,time_min\nimage=2x4,1\n", "r") == [("image=2x4", 60.0)]
    with pytest.raises(ConfigError, match="no column 'placement'"):
        parse_measured_runs("ranks,time_s\n1,2\n", "r")


def test_values_to_choose_from_are_read() -> None:
    assert parse_choices(["ranks=1,2", "threads=4"]) == {"ranks": [1.0, 2.0], "threads": [4.0]}
    for word in ("ranks", "ranks=", "ranks=a", "=1", "2=1"):
        with pytest.raises(ConfigError, match="give a parameter with its values"):
            parse_choices([word])
