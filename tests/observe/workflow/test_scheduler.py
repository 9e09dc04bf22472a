"""The state machine of a workflow, against a simulated machine that does what it says in any order."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.observe.workflow.scheduler import (
    Advised,
    Ask,
    Begun,
    Ended,
    Finish,
    Instruction,
    Interrupted,
    Launch,
    Note,
    Scheduler,
    Stop,
    filled,
)
from chimbuko.observe.workflow.task import Node, Recommendation, Resources, State, Task

NODES = (Node("a", (0, 1, 2)), Node("b", (4, 5)))
FITTING = [
    Resources(ranks, cores, nodes)
    for ranks, cores, nodes in [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 3, 1), (3, 1, 1), (2, 2, 2), (3, 1, 2)]
]


@st.composite
def workflows(draw: st.DrawFn) -> list[Task]:
    """Tasks in an order in which they may depend on earlier ones."""
    tasks: list[Task] = []
    for at in range(draw(st.integers(1, 7))):
        names = [task.name for task in tasks]
        resources = draw(st.sampled_from(FITTING))
        advice = {"cores": Recommendation("application", "advice/cores", draw(st.sampled_from([1, None])))}
        tasks.append(
            Task(
                f"t{at}",
                ("run", "{cores}"),
                tuple(draw(st.lists(st.sampled_from(names), max_size=2, unique=True))) if names else (),
                resources,
                draw(st.integers(0, 2)),
                recommended=advice if draw(st.booleans()) else {},
            )
        )
    return draw(st.permutations(tasks))


@dataclass
class Machine:
    """Does what it is told, and holds against it what it must never be told."""

    tasks: dict[str, Task]
    running: dict[str, Launch] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    attempts: dict[str, int] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    states: dict[str, list[State]] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)
    is_interrupted: bool = False
    is_finished: bool = False

    def obey(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            assert not self.is_finished
            match instruction:
                case Launch():
                    self._launch(instruction)
                case Ask(name):
                    self.asked.append(name)
                case Stop(name):
                    assert name in self.running
                    self.stopped.add(name)
                case Note(name, state):
                    self.states.setdefault(name, []).append(state)
                case Finish():
                    assert not self.running
                    self.is_finished = True
        places = [one.place for one in self.running.values()]
        used = [(node, core) for place in places for node in place for core in place[node]]
        assert len(used) == len(set(used))
        assert set(used) <= {(node.name, core) for node in NODES for core in node.cores}

    def _launch(self, launch: Launch) -> None:
        assert not self.is_interrupted and launch.task not in self.running
        task = self.tasks[launch.task]
        assert set(task.after) <= self.done
        self.attempts[task.name] = self.attempts.get(task.name, 0) + 1
        assert self.attempts[task.name] == launch.attempt <= 1 + task.retries
        assert len(launch.place) == launch.resources.nodes
        assert sum(map(len, launch.place.values())) >= launch.resources.ranks * launch.resources.cores
        assert launch.words == ("run", str(launch.resources.cores))
        self.running[task.name] = launch


@settings(max_examples=80, deadline=None)
@given(workflows(), st.data())
def test_no_order_of_events_breaks_what_is_promised(tasks: list[Task], data: st.DataObject) -> None:
    scheduler = Scheduler(tasks, NODES)
    machine = Machine({task.name: task for task in tasks})
    interrupt_at = data.draw(st.one_of(st.none(), st.integers(0, 12)))
    machine.obey(scheduler.handle(Begun()))
    step = 0
    while not machine.is_finished:
        if step == interrupt_at:
            machine.is_interrupted = True
            machine.obey(scheduler.handle(Interrupted()))
            assert machine.stopped >= machine.running.keys()
        else:
            # Never stuck: something runs or was asked for until the end.
            choices = [*machine.running, *machine.asked]
            name = data.draw(st.sampled_from(choices))
            if name in machine.running:
                del machine.running[name]
                code = data.draw(st.sampled_from([0, 0, 1]))
                machine.done |= {name} if code == 0 else set()
                machine.obey(scheduler.handle(Ended(name, code)))
            else:
                machine.asked.remove(name)
                advice = data.draw(st.sampled_from([{}, {"cores": 1}, {"cores": 2}, {"cores": 99}]))
                machine.obey(scheduler.handle(Advised(name, advice)))
        step += 1
        assert step < 100
    for task in tasks:
        states = machine.states[task.name]
        assert states[0] is State.NEW and states[-1].is_final
        assert not any(state.is_final for state in states[:-1])
        assert (states[-1] is State.DONE) == (task.name in machine.done)
        ends = {machine.states[other][-1] for other in task.after}
        if ends & {State.FAILED, State.CANCELED}:
            assert states[-1] is State.CANCELED and State.EXECUTING not in states
    assert scheduler.handle(Interrupted()) == []


def launched(instructions: list[Instruction]) -> list[Launch]:
    return [one for one in instructions if isinstance(one, Launch)]


def test_a_smaller_task_passes_one_that_waits_for_cores() -> None:
    tasks = [
        Task("first", ("x",), resources=Resources(cores=2)),
        Task("large", ("x",), resources=Resources(cores=3)),
        Task("small", ("x",)),
    ]
    scheduler = Scheduler(tasks, NODES[:1])
    assert [one.task for one in launched(scheduler.handle(Begun()))] == ["first", "small"]
    assert launched(scheduler.handle(Ended("small", 0))) == []
    assert [one.task for one in launched(scheduler.handle(Ended("first", 0)))] == ["large"]


def test_what_is_recommended_is_heeded_where_there_is_room_for_it() -> None:
    recommended = {
        "cores": Recommendation("application", "advice/cores", 1),
        "rate": Recommendation("application", "advice/rate", 0.1),
    }
    task = Task("learn", ("learn", "--rate={rate}", "--threads={cores}", "{other}"), recommended=recommended)
    for advice, words in (
        ({}, ("--rate=0.1", "--threads=1")),
        ({"cores": 3, "rate": 0.5}, ("--rate=0.5", "--threads=3")),
        ({"cores": 4, "rate": 0.5}, ("--rate=0.5", "--threads=1")),
        ({"cores": float("nan"), "rate": 0.5}, ("--rate=0.5", "--threads=1")),
        ({"cores": 2.5}, ("--rate=0.1", "--threads=1")),
        ({"cores": "{rate}", "rate": "{cores}"}, ("--rate={cores}", "--threads=1")),
    ):
        scheduler = Scheduler([task], NODES[:1])
        assert Ask("learn") in scheduler.handle(Begun())
        (launch,) = launched(scheduler.handle(Advised("learn", advice)))
        assert launch.words == ("learn", *words, "{other}")


def test_a_task_whose_recommendation_is_missing_fails_and_says_which() -> None:
    task = Task("learn", ("learn",), recommended={"rate": Recommendation("application", "advice/rate")})
    scheduler = Scheduler([task], NODES)
    scheduler.handle(Begun())
    note, finish = scheduler.handle(Advised("learn", {}))
    assert isinstance(note, Note) and note.state is State.FAILED and finish == Finish()
    assert note.reason == "application advice/rate has no value, and rate has no default"


def test_only_names_in_braces_are_filled() -> None:
    assert filled('{"a": {n}} {{n}} {n', {"n": "7"}) == '{"a": 7} {7} {n'
