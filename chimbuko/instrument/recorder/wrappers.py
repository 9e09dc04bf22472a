"""Generated wrappers, in C, of all functions that an MPI declares."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chimbuko.instrument.recorder.mpitable import Meaning, meanings

_PROTOTYPE = re.compile(
    r"\bint\s+(?P<name>MPI_[A-Z]\w*)\s*\((?P<parameters>(?:[^()]|\([^()]*\))*)\)"
    r"\s*(?:__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)\s*)*;"
)
_DATA = re.compile(r"\bextern\s+(?:const\s+)?(?:struct\s+)?\w+\s*\**\s*(?P<name>\w+)\s*;")
_LAST_NAME = re.compile(r"\w+(?=\s*(?:\[[^]]*\]\s*)*$)")
_NOT_WRAPPED = re.compile(
    r"MPI_T_|MPI_Pcontrol$|MPI_\w+_(?:[cf]2[cf](?:08)?|f082[cf]|[cf]2f08)$|MPI_Status_\w+2\w+$"
)
"""Names of functions without a wrapper: the tools interface, ``MPI_Pcontrol``, and conversions of handles."""


@dataclass(frozen=True)
class Prototype:
    """Function of MPI as it is declared."""

    name: str
    parameters: tuple[str, ...]
    """Declarations of the parameters."""


def prototypes(header: str) -> list[Prototype]:
    """Return the functions that a preprocessed ``mpi.h`` declares, each once, sorted by name."""
    found = {}
    for match in _PROTOTYPE.finditer(_flat(header)):
        name, text = match["name"], match["parameters"].strip()
        if _NOT_WRAPPED.match(name) is None and "..." not in text:
            parameters = () if text in ("", "void") else tuple(part.strip() for part in text.split(","))
            found[name] = Prototype(name, parameters)
    return [found[name] for name in sorted(found)]


def data_names(header: str) -> list[str]:
    """Return the names of the objects that a preprocessed ``mpi.h`` declares."""
    return sorted(
        {match["name"] for match in _DATA.finditer(_flat(header)) if "mpi" in match["name"].lower()}
    )


def _flat(header: str) -> str:
    return " ".join(re.sub(r"^#.*$", "", header, flags=re.MULTILINE).split())


def objects_header(header: str) -> str:
    """Return a C header that makes MPI's objects weak, as a process may preload the library without MPI."""
    return "".join(f"#pragma weak {name}\n" for name in data_names(header))


def wrappers_source(header: str) -> str:
    """Return the C source of all wrappers for a preprocessed ``mpi.h``."""
    functions = prototypes(header)
    known = meanings()
    lines = ['#include "callers.h"', '#include "messages.h"', '#include "functions.h"', ""]
    lines += [f"void *volatile next_functions[{len(functions)}];"]
    lines += [f"const unsigned function_count = {len(functions)};"]
    lines += [
        "const char *const function_names[] = {",
        *(f'    "{each.name}",' for each in functions),
        "};",
        "",
    ]
    for number, function in enumerate(functions):
        lines.append(_wrapper(number, function, known.get(function.name)))
    return "\n".join(lines)


def _wrapper(number: int, function: Prototype, meaning: Meaning | None) -> str:
    names = tuple(f"p{position}" for position in range(len(function.parameters)))
    if meaning is None or len(meaning.parameters) != len(names):
        meaning = Meaning(names)
    names = meaning.parameters
    declared = ", ".join(map(_renamed, function.parameters, names)) or "void"
    before, passed, after, end = _around(meaning)
    given = ", ".join(passed.get(name, name) for name in names)
    lines = [
        f"EXPORTED int {function.name}({declared})",
        "{",
        f"    __typeof__(&{function.name}) next = (__typeof__(next))next_functions[{number}];",
        "    if (UNLIKELY(next == NULL))",
        f"        next = (__typeof__(next))find_next({number});",
        "    if (UNLIKELY(is_in_mpi()))",
        f"        return next({', '.join(names)});",
        "    self.mpi_frame = FRAME;",
        f"    enter_mpi(NAMED | {number});",
        *(f"    {line}" for line in before),
        f"    int result = next({given});",
    ]
    if after:
        lines += ["    if (LIKELY(result == MPI_SUCCESS)) {", *(f"        {line}" for line in after), "    }"]
    lines += [
        *(f"    {line}" for line in end),
        f"    {leave_of(function)}(NAMED | {number});",
        "    self.mpi_frame = 0;",
        "    return result;",
        "}",
        "",
    ]
    return "\n".join(lines)


def leave_of(function: Prototype) -> str:
    """Return the recorder's function for the end of a call; polls, which programs repeat, have their own."""
    is_poll = re.match(r"MPI_(Test(all|any|some)?|Im?probe|Request_get_status)$", function.name)
    return "leave_poll" if is_poll else "leave"


def _renamed(declaration: str, name: str) -> str:
    return _LAST_NAME.sub(name, declaration, count=1)


def _around(meaning: Meaning) -> tuple[list[str], dict[str, str], list[str], list[str]]:
    """Return the statements before the call, the arguments that differ in it, the statements after it if it
    succeeded, and those after it in any case.
    """
    before, passed, after, end = [], {}, [], []
    # The recorder needs the statuses also where the program ignores them.
    if "requests" in meaning.parameters:
        has_all = "statuses" in meaning.parameters
        statuses = "statuses == MPI_STATUSES_IGNORE ? NULL : statuses" if has_all else "NULL"
        before += ["struct waiting held;", f"hold(&held, count, requests, {statuses});"]
        end.append("let_go(&held);")
        if has_all:
            passed["statuses"] = "held.statuses == NULL ? statuses : held.statuses"
    if "status" in meaning.parameters:
        before += ["MPI_Status own;", "if (status == MPI_STATUS_IGNORE)", "    status = &own;"]
    before += [meaning.before] if meaning.before else []
    after += [meaning.after] if meaning.after else []
    return before, passed, after, end
