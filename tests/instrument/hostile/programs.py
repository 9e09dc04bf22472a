"""Generated programs that make the life of whoever records them hard, drawn from a seed.

A program is a tree of functions, each with a name of its own, which call each other in ways that are drawn.
Each function counts its calls itself, and all processes leave their counts in files: the truth.
"""

from __future__ import annotations

import json
import random
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SLOW_US: Final = 10_000
"""Time in µs for which the last function of each program sleeps, once."""
FUNCTIONS: Final = (3, 6)
TIMES: Final = (1, 3)

PYTHON_WAYS: Final = {
    "plain": "{callee}()",
    "deep": "{callee}(depth=5)",
    "raise": "try:\n    {callee}(fails=True)\nexcept ValueError:\n    pass",
    "thread": "thread = threading.Thread(target={callee})\nthread.start()\nthread.join()",
    "handler": "signal.signal(signal.SIGUSR1, lambda *_: {callee}())\nsignal.raise_signal(signal.SIGUSR1)",
    "generator": "for _ in ({callee}() for _ in range(2)):\n    pass",
    "coroutine": "drive(awaiting({callee}))",
    "cancelled": "drive(awaiting({callee}), is_cancelled=True)",
    "process": "process = FORK.Process(target=in_child, args=({callee},))\nprocess.start()\nprocess.join()",
    "too deep": "try:\n    {callee}(depth=10**9)\nexcept RecursionError:\n    pass",
    "closed": "os.closerange(3, 64)\n{callee}()",
}
"""Ways in which a function calls another one. Of a profiler in the place of ours, which hides all others,
``test_hooks`` has tests.
"""

C_WAYS: Final = {
    "plain": "{callee}(0, 0);",
    "deep": "{callee}(5, 0);",
    "jump": "{{ jmp_buf around; jmp_buf *before = innermost; innermost = &around;"
    " if (!setjmp(around)) {callee}(0, 1); innermost = before; }}",
    "thread": "{{ pthread_t thread; pthread_create(&thread, 0, of_thread, (void *){callee});"
    " pthread_join(thread, 0); }}",
    "handler": "{{ handled = {callee}; raise(SIGUSR1); }}",
    "deep jump": "{{ jmp_buf around; jmp_buf *before = innermost; innermost = &around;"
    " if (!setjmp(around)) {callee}(2000, 1); innermost = before; }}",
    "jump from a handler": "{{ jmp_buf around; jmp_buf *before = innermost; innermost = &around;"
    " handled = {callee}; must_fail = 1;"
    " if (!sigsetjmp(around, 1)) raise(SIGUSR1); innermost = before; }}",
    "fork": "{{ pid_t child = fork(); if (!child) {{ clear(); {callee}(0, 0); leave(); exit(0); }}"
    " waitpid(child, 0, 0); }}",
}

HIDING: Final = frozenset(("too deep",))
"""Ways by which others are hidden for a moment, and a call may be recorded as two; drawn with plain calls."""
_PYTHON_HEAD = """
import json, multiprocessing, os, signal, sys, threading, time

SLEPT = set()
FORK = multiprocessing.get_context("fork")

class Tick:
    def __await__(self):
        yield

async def awaiting(callee):
    try:
        await Tick()
    finally:
        callee()

def drive(coroutine, is_cancelled=False):
    try:
        coroutine.send(None)
        if is_cancelled:
            coroutine.throw(ValueError())
        coroutine.send(None)
    except (StopIteration, ValueError):
        pass

def in_child(callee):
    CALLS.update(dict.fromkeys(CALLS, 0))
    callee()
    leave()

def leave():
    with open(f"calls.{os.getpid()}.json", "w") as file:
        json.dump({name: calls for name, calls in CALLS.items() if calls}, file)
"""

_C_HEAD = """
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
typedef void function(int depth, int fails);
/* Volatile, as the compiler knows that raise() calls nothing of this file. */
static volatile long calls[MOST];
static volatile char slept[MOST];
static const char *names[MOST];
static jmp_buf *volatile innermost;
static function *volatile handled;
static volatile int must_fail;

QUIET static void clear(void) { memset((void *)calls, 0, sizeof calls); }
QUIET static void *of_thread(void *callee) { ((function *)callee)(0, 0); return 0; }
QUIET static void on_signal(int number)
{
    int fails = must_fail;
    (void)number;
    must_fail = 0;
    handled(0, fails);
}
QUIET static void leave(void)
{
    char name[64];
    snprintf(name, sizeof name, "calls.%d.json", (int)getpid());
    FILE *file = fopen(name, "w");
    const char *between = "{";
    for (int at = 0; at < MOST; at++)
        if (calls[at]) { fprintf(file, "%s\\"%s\\": %ld", between, names[at], calls[at]); between = ", "; }
    fprintf(file, *between == '{' ? "{}" : "}");
    fclose(file);
}
"""


@dataclass(frozen=True)
class Node:
    """A function, with the ways in which it calls those behind it."""

    name: str
    calls: tuple[tuple[str, int, int], ...]
    """Way, place of the function that is called, and how many times."""
    is_slow: bool


def tree(seed: int, ways: Sequence[str]) -> list[Node]:
    """Draw the functions of one program."""
    draw = random.Random(seed)
    count = draw.randint(*FUNCTIONS)
    nodes = []
    for at in range(count):
        behind = range(at + 1, count)
        chosen = draw.sample(behind, min(len(behind), draw.randint(1, 2)))
        calls = tuple((draw.choice(ways), other, draw.randint(*TIMES)) for other in chosen)
        nodes.append(Node(f"p{seed}_f{at}", calls, at == count - 1))
    return nodes


def _sound(ways: Mapping[str, str]) -> list[str]:
    return [way for way in ways if way not in HIDING]


def python_text(seeds: Sequence[int], ways: Sequence[str] = ()) -> str:
    """Return a module that runs the programs of all seeds, one after the other; by default they are drawn
    from all ``ways`` that hide nothing.
    """
    parts, names = [_PYTHON_HEAD], list[str]()
    for seed in seeds:
        nodes = tree(seed, ways or _sound(PYTHON_WAYS))
        names += [node.name for node in nodes]
        for node in nodes:
            body = f'CALLS["{node.name}"] += 1\n'
            body += "if depth:\n    " + node.name + "(depth - 1)\n    return\n"
            if node.is_slow:
                body += f'if "{node.name}" not in SLEPT:\n    SLEPT.add("{node.name}")\n'
                body += f"    time.sleep({SLOW_US / 1e6})\n"
            for way, other, times in node.calls:
                call = PYTHON_WAYS[way].format(callee=nodes[other].name)
                body += f"for _ in range({times}):\n{textwrap.indent(call, '    ')}\n"
            body += "if fails:\n    raise ValueError\n"
            parts.append(f"def {node.name}(depth=0, fails=False):\n{textwrap.indent(body, '    ')}")
    # A dict, and with all names: to count then calls nothing, which would fail at the limit of recursion.
    counts = f"CALLS = dict.fromkeys({names}, 0)"
    runs = "\n".join(f"p{seed}_f0()" for seed in seeds)
    return "\n".join([*parts, counts, runs, "leave()", ""])


def c_text(seeds: Sequence[int]) -> str:
    """Return a source that runs the programs of all seeds, one after the other."""
    trees = [tree(seed, _sound(C_WAYS)) for seed in seeds]
    numbers = {node.name: number for number, node in enumerate(node for nodes in trees for node in nodes)}
    parts = [f"#define MOST {len(numbers)}", _C_HEAD]
    parts += [f"static void {name}(int depth, int fails);" for name in numbers]
    for nodes in trees:
        for node in nodes:
            number = numbers[node.name]
            body = [f"__atomic_add_fetch(&calls[{number}], 1, __ATOMIC_RELAXED);"]
            body += [f"if (depth) {{ {node.name}(depth - 1, fails); return; }}"]
            if node.is_slow:
                body += [f"if (!slept[{number}]) {{ slept[{number}] = 1; usleep({SLOW_US}); }}"]
            for way, other, times in node.calls:
                call = C_WAYS[way].format(callee=nodes[other].name)
                body += [f"for (int turn = 0; turn < {times}; turn++) {call}"]
            body += ["if (fails) siglongjmp(*innermost, 1);"]
            lines = "\n".join(f"    {line}" for line in body)
            parts.append(f"static void {node.name}(int depth, int fails)\n{{\n{lines}\n}}")
    named = "\n".join(f'    names[{number}] = "{name}";' for name, number in numbers.items())
    runs = "\n".join(f"    {nodes[0].name}(0, 0);" for nodes in trees)
    handler = "    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_NODEFER};\n"
    main = (
        f"int main(void)\n{{\n{handler}    sigaction(SIGUSR1, &action, 0);\n{named}\n{runs}\n    leave();\n}}"
    )
    return "\n".join([*parts, main, ""])


def truth(folder: Path) -> Counter[str]:
    """Return the number of calls of each function, of all processes."""
    calls: Counter[str] = Counter()
    for file in folder.glob("calls.*.json"):
        calls.update(json.loads(file.read_text()))
    return calls
