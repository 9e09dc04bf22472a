"""Files of workflows, right and wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimbuko.core.errors import ConfigError
from chimbuko.observe.workflow.description import check_room, read_workflow
from chimbuko.observe.workflow.task import Node, Recommendation, Resources

TOML = """
mpirun = "mpirun.mpich -bind-to none"
[analysis]
options = ["--period", "0.5"]
[monitor]
period = "500ms"
[[task]]
name = "simulate"
command = "python 'my simulation.py' --steps 10"
ranks = 4
nodes = 2
retries = 1
environment = { OMP_NUM_THREADS = "1" }
[[task]]
name = "learn"
command = ["python", "learn.py", "--rate={rate}"]
after = ["simulate"]
recommended.rate = { key = "advice/rate", default = 0.1 }
"""
YAML = """
mpirun: mpirun.mpich -bind-to none
analysis: {options: [--period, "0.5"]}
monitor: {period: 500ms}
task:
- {name: simulate, command: python 'my simulation.py' --steps 10, ranks: 4, nodes: 2, retries: 1,
   environment: {OMP_NUM_THREADS: "1"}}
- name: learn
  command: [python, learn.py, "--rate={rate}"]
  after: [simulate]
  recommended: {rate: {key: advice/rate, default: 0.1}}
"""


def test_toml_and_yaml_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text(TOML)
    (tmp_path / "w.yaml").write_text(YAML)
    workflow = read_workflow(tmp_path / "w.toml")
    assert read_workflow(tmp_path / "w.yaml") == workflow
    simulate, learn = workflow.tasks
    assert simulate.command == ("python", "my simulation.py", "--steps", "10")
    assert simulate.resources == Resources(4, 1, 2)
    assert learn.recommended == {"rate": Recommendation("application", "advice/rate", 0.1)}
    assert workflow.mpirun == ("mpirun.mpich", "-bind-to", "none")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[task]\n", "not TOML"),
        ("", "missing required field `task`"),
        ("task = []", "no task"),
        ("[[task]]\nname = 'a'", "missing required field `command`"),
        ("[[task]]\nname = 'a'\ncommand = ''", "task a: the command is empty"),
        ("[[task]]\nname = 'a'\ncommand = \"x 'y\"", "no command"),
        ("[[task]]\nname = 'a'\ncommand = 'x'\ncore = 2", "unknown field `core`"),
        ("[[task]]\nname = 'a'\ncommand = 'x'\ncores = 0", "task a: cores = 0; give 1 or more"),
        ("[[task]]\nname = 'a'\ncommand = 'x'\nnodes = 2", "1 ranks cannot be on 2 nodes"),
        ("[[task]]\nname = 'a/b'\ncommand = 'x'", "no name"),
        ("[[task]]\nname = 'a'\ncommand = 'x'\nafter = ['b']", "is after 'b', and there is no such task"),
        ("[[task]]\nname = 'a'\ncommand = 'x'\nafter = ['a']", "tasks a: wait for each other in a circle"),
        ("[[task]]\nname = 'a'\ncommand = 'x'\n[monitor]\nperiod = 'soon'", "'soon'"),
        ("[[task]]\nname = 'a'\ncommand = 'x'\n" * 2, "there are 2 of this name"),
    ],
)
def test_what_is_wrong_is_one_line_with_the_file(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "w.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_workflow(path)
    assert str(caught.value).startswith(str(path)) and words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "text"), [("w.yaml", "a: [1"), ("w.yml", "- 1"), ("none.toml", None)])
def test_other_files_are_refused(name: str, text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=name):
        read_workflow(tmp_path / name)


def test_a_task_that_can_never_fit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text(TOML)
    tasks = read_workflow(tmp_path / "w.toml").tasks
    check_room(tasks, [Node("a", (0, 1)), Node("b", (0, 1))])
    with pytest.raises(
        ConfigError, match="simulate: needs 2 cores on each of 2 nodes, and there are a with 4"
    ):
        check_room(tasks, [Node("a", (0, 1, 2, 3))])
