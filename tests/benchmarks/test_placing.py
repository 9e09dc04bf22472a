"""The judgement of real runs against the model of where the analysis runs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.placing.judging import SPLITS, WHOLE, Model, Run, fitted, judge, typical
from benchmarks.placing.printing import as_documented, kept
from benchmarks.placing.quota import V1_QUOTA, V2_QUOTA, Group, outer_groups, quota_group
from benchmarks.report import DOCS, replaced
from chimbuko.core.errors import ConfigError
from chimbuko.plan.placingcosts import Slowdown, UnitCosts

TRUE = Model({1: (0.25, 1e-6), 2: (0.125, 5e-7)}, UnitCosts(0.03, 2e-3, 6e-7), Slowdown(1.2, 1.5, 0.3))


def made(split: str, rows: int, every: int) -> Run:
    """A run as the model says."""
    ranks = int(split[-1]) if split.startswith("alone") else SPLITS[split][0]
    run = Run(split, ranks, rows, every, 24, 0.0, 0.0)
    if split.startswith("alone"):
        return replace(run, step_s=TRUE.alone_s(run))
    step_s = TRUE.predict(run).step_s
    cpu_s = 24 * min(TRUE.costs.cpu_s(step_s, ranks / every, rows), SPLITS[split][2].cores * step_s)
    return replace(run, step_s=step_s, analysis_cpu_s=cpu_s)


FITTED_TO = [made(f"alone {ranks}", rows, 1) for ranks in (1, 2) for rows in (5_000, 240_000)]
FITTED_TO += [made(s, rows, every) for s in WHOLE for rows in (5_000, 240_000) for every in (1, 4)]
HELD_OUT = [made(s, rows, every) for s in SPLITS for rows in (5_000, 100_000, 240_000) for every in (1, 4)]


def test_runs_that_are_as_the_model_says_pass_and_only_with_the_analysis_in_it() -> None:
    model = fitted(FITTED_TO)
    for name in ("shared", "inside", "own"):
        assert getattr(model.slowdown, name) == pytest.approx(getattr(TRUE.slowdown, name), rel=0.1)
    for run in HELD_OUT:
        assert model.predict(run).step_s == pytest.approx(run.step_s, rel=0.02)
    verdict = judge(model, HELD_OUT)
    assert verdict.failures == [] and verdict.configurations == len(HELD_OUT)
    assert verdict.added_errors and verdict.most_apart > 0.2
    assert verdict.behind == verdict.behind_predicted == verdict.behind_both > 0
    without = judge(model, HELD_OUT, has_analysis=False)
    assert any("added seconds" in failure for failure in without.failures)


def test_few_runs_that_others_slowed_down_do_not_change_the_model() -> None:
    disturbed = [
        replace(run, step_s=1.5 * run.step_s) if at % 7 == 0 else run
        for at, run in enumerate([*FITTED_TO, *FITTED_TO[:4]])
    ]
    assert {run.split for run in disturbed[::7]} == {"alone 1", "shared", "own"}
    assert judge(fitted(disturbed), HELD_OUT).failures == []


def test_other_runs_do_not_pass() -> None:
    slower = [replace(run, step_s=1.5 * run.step_s) for run in HELD_OUT]
    failures = judge(fitted(FITTED_TO), slower).failures
    assert any("greatest error" in failure for failure in failures)


def test_a_recommendation_that_is_not_the_best_is_seen() -> None:
    worse = [replace(run, step_s=0.3 * run.step_s) if run.split == "one core" else run for run in HELD_OUT]
    assert max(judge(fitted(FITTED_TO), worse).regrets) > 0.05


def test_the_best_split_is_one_whose_analysis_keeps_up() -> None:
    verdict = judge(fitted(FITTED_TO), HELD_OUT)
    assert max(verdict.regrets) <= 0.05
    # One that fell behind took less time; a recommendation that does is none.
    behind = [replace(run, analysis_cpu_s=24 * 2 * run.step_s) for run in HELD_OUT]
    assert min(judge(fitted(FITTED_TO), behind).regrets) == float("inf")


def test_the_median_of_its_runs_is_what_was_measured_of_a_configuration() -> None:
    disturbed = [replace(run, step_s=2 * run.step_s, analysis_cpu_s=0.0) for run in HELD_OUT]
    faster = [replace(run, step_s=0.9 * run.step_s) for run in HELD_OUT]
    assert typical([*disturbed, *faster, *HELD_OUT]) == HELD_OUT


def test_a_group_takes_processes_and_is_gone_at_the_end() -> None:
    try:
        with quota_group() as group:
            group.limit(0.25)
            names = {path.name: path.read_text().split()[0] for path in group.folder.glob("cpu.*[qm]*")}
            assert "25000" in (names.get(V1_QUOTA), names.get(V2_QUOTA))
            group.join()
            assert str(os.getpid()) in (group.folder / "cgroup.procs").read_text().split()
            group.leave()
            assert (group.folder / "cgroup.procs").read_text() == ""
        assert not group.folder.exists()
    except ConfigError as error:
        assert str(error).startswith("no CPU quota can be given here (")


@pytest.mark.parametrize("name", [V1_QUOTA, V2_QUOTA])
def test_quotas_are_written_as_each_version_of_cgroups_takes_them(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    group = Group(tmp_path, tmp_path)
    written = []
    for cores in (0.125, None):
        group.limit(cores)
        written.append((tmp_path / name).read_text())
    assert written == (["12500", "-1"] if name == V1_QUOTA else ["12500 100000", "max 100000"])


def test_groups_are_made_in_those_of_this_process() -> None:
    mounts = (
        "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n"
        "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n"
        "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n"
    )
    membership = b"4:memory:/a\n2:cpu,cpuacct:/job/7\n0::/user.slice\n"
    assert outer_groups(mounts, membership) == [
        Path("/sys/fs/cgroup/cpu,cpuacct/job/7"),
        Path("/sys/fs/cgroup/unified/user.slice"),
    ]
    assert outer_groups("", membership) == []


def test_the_page_is_what_the_command_prints() -> None:
    document = (DOCS / "howto" / "insitu.md").read_text()
    assert replaced(document, "placing", as_documented(kept())) == document
