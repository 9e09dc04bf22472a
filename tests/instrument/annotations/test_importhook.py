"""Programs whose functions are annotated while they are imported."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.instrument.tracer.traced_program import TRACE, environment, read_whole, run_traced, write_program
from tests.patience import PATIENCE_S

PACKAGE = '''
    """Documentation."""
    from __future__ import annotations

    import functools

    registered = []

    @registered.append
    def at_once(): pass

    @functools.lru_cache
    def cached(n): return n

    class Grid:
        @staticmethod
        def step(): pass

        @classmethod
        def make(cls): return cls()

        @property
        def size(self): return 3

        def __init__(self): super().__init__()

    def outer():
        def inner(): pass
        inner()

    def turns():
        yield 1
        yield 2

    def raises(): raise ValueError

    def other(): pass
'''
MAIN = """
    import importlib, json, pkg.sub as sub

    def main():
        sub.registered[0]()
        sub.cached(1), sub.cached(1)
        sub.Grid.step()
        assert sub.Grid.make().size == 3
        sub.outer()
        assert sum(sub.turns()) == 3
        try: sub.raises()
        except ValueError: pass
        sub.other()
        importlib.reload(sub)
        sub.outer()
        json.loads("1")

    if __name__ == "__main__":
        main()
"""
CHILDREN = """
    def late(): pass

    def work():
        import time
        main()
        late()
        # Long enough to be worth a stream.
        time.sleep(0.3)

    if __name__ == "__main__":
        import multiprocessing
        context = multiprocessing.get_context("{method}")
        if "{method}" == "forkserver": context.set_forkserver_preload(["pkg.sub"])
        child = context.Process(target=work)
        child.start()
        child.join()
""".strip()
ASPECTS = ("pkg.*:at_once", "pkg.sub:c*", "pkg.sub:Grid.*", "*:outer.*.inner", "pkg.sub:turns")
CALLS = {
    **{"main": 1, "at_once": 1, "cached": 1, "Grid.step": 1, "Grid.make": 1, "Grid.size": 1},
    **{"Grid.__init__": 1, "outer.<locals>.inner": 2, "turns": 3, "raises": 1, "loads": 1},
}


def write_package(folder: Path) -> None:
    package = folder / "pkg"
    package.mkdir()
    write_program(package, "", "__init__.py")
    write_program(package, PACKAGE, "sub.py")


def options(*patterns: str) -> list[str]:
    return [word for pattern in patterns for word in ("--aspect", pattern)]


def calls_of(path: Path) -> Counter[str]:
    counts = read_whole(path).counts()
    del counts[".TAU application"]
    return counts


def test_matching_functions_are_calls_and_no_others(tmp_path: Path) -> None:
    write_package(tmp_path)
    program = write_program(tmp_path, MAIN)
    more = ("__main__:main", "json:loads", "pkg.sub:raises:after", "pkg.sub:nothing", "no:*")
    done = run_traced(program, *options(*ASPECTS, *more))
    assert done.returncode == 0 and done.stderr == (
        "chimbuko: no function that the program has loaded matches --aspect 'pkg.sub:nothing', 'no:*'\n"
    )
    assert calls_of(tmp_path / "tau-metrics-program-0.bp") == CALLS


def test_modules_that_are_run_match_by_their_name(tmp_path: Path) -> None:
    write_package(tmp_path)
    write_program(tmp_path / "pkg", MAIN, "tool.py")
    done = subprocess.run(
        [*TRACE, *options(*ASPECTS, "pkg.tool:main"), "-m", "pkg.tool"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = calls_of(tmp_path / "tau-metrics-pkg.tool-0.bp")
    assert found == {name: count for name, count in CALLS.items() if name not in ("raises", "loads")}


@pytest.mark.parametrize("method", ["fork", "spawn", pytest.param("forkserver", marks=pytest.mark.thorough)])
def test_processes_that_the_program_starts_are_annotated_too(tmp_path: Path, method: str) -> None:
    write_package(tmp_path)
    text = MAIN.replace('if __name__ == "__main__":', CHILDREN.format(method=method))
    more = ("__main__:main", "__main__:late", "json:loads", "pkg.*:raises")
    done = run_traced(write_program(tmp_path, text), *options(*ASPECTS, *more))
    assert (done.returncode, done.stderr) == (0, "")
    assert calls_of(tmp_path / "tau-metrics-program-0.bp") == CALLS
    assert calls_of(tmp_path / "tau-metrics.1-program-0.bp") == {**CALLS, "late": 1}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--aspect", "solve", "program.py"), "'solve' is no MODULE:FUNCTION"),
        (("--aspect", "a:b", "--builtins", "program.py"), "--aspect leaves nothing for --include"),
        (("--aspect", "a:b", "/bin/true"), "--aspect are for these"),
    ],
)
def test_what_makes_no_sense_is_one_line(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    write_program(tmp_path, "print('never')")
    done = subprocess.run(
        [*TRACE, *words], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.count("\n") == 1
    assert said in done.stderr
