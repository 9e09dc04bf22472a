"""Generated wrappers, in C, of all functions that an MPI declares, for C and for Fortran."""

from __future__ import annotations

import re
from collections.abc import Sequence
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


# Generated wrappers of MPI's Fortran functions, where these do not call the wrapped C functions.
#
# The Fortran functions of Open MPI call ``PMPI_`` functions. Those of MPICH call ``MPI_`` functions, which
# are wrapped, except for those of the module of Fortran 2008 that have no buffer. A wrapper passes on all
# of its arguments as they are; lengths of texts stand behind all other arguments. To record, it converts
# Fortran's handles, statuses and indices.


_HANDLES = {
    "MPI_Comm": "comm",
    "MPI_Datatype": "type",
    "MPI_Request": "request",
    "MPI_Message": "message",
    "MPI_Win": "win",
    "MPI_Session": "session",
}
_WITHOUT_ARGUMENTS = ("MPI_Init",)
"""Functions that have no arguments in Fortran, which has no command line to pass."""


def fortran_source(header: str) -> str:
    """Return the C source of all wrappers of Fortran functions, for a preprocessed ``mpi.h``."""
    has_own_path = any(name.startswith("ompi_") for name in data_names(header))
    known = meanings()
    lines = ['#include "callers.h"', '#include "fortran.h"', ""]
    for number, function in enumerate(prototypes(header)):
        meaning = known.get(function.name)
        if meaning is None or len(meaning.parameters) != len(function.parameters):
            meaning = Meaning(())
        name = function.name.lower()
        if has_own_path:
            aliases = (name, f"{name}__", function.name.upper())
            lines.append(_fortran_wrapper(number, function, meaning, f"{name}_", aliases))
        lines.append(_fortran_wrapper(number, function, meaning, f"{name}_f08_"))
    return "\n".join(lines)


def _fortran_wrapper(
    number: int, function: Prototype, meaning: Meaning, symbol: str, aliases: Sequence[str] = ()
) -> str:
    error = 0 if function.name in _WITHOUT_ARGUMENTS else len(function.parameters)
    names = [f"a{place}" for place in range(error + 1 + _texts(function))]
    given, declared = ", ".join(names), ", ".join(f"void *{name}" for name in names)
    before, after, end = _recorded(function, meaning)
    lines = [
        f"EXPORTED void {symbol}({declared})",
        "{",
        "    static FortranFunction volatile next;",
        "    if (UNLIKELY(next == NULL))",
        f'        next = find_fortran("{symbol}");',
        "    if (UNLIKELY(is_in_mpi())) {",
        f"        next({given});",
        "        return;",
        "    }",
        "    self.mpi_frame = FRAME;",
        f"    enter_mpi(NAMED | {number});",
        *(f"    {line}" for line in before),
        f"    next({given});",
    ]
    if after:
        lines += [f"    if (has_succeeded(a{error})) {{", *(f"        {line}" for line in after), "    }"]
    lines += [
        *(f"    {line}" for line in end),
        f"    {leave_of(function)}(NAMED | {number});",
        "    self.mpi_frame = 0;",
        "}",
        *(f'EXPORTED void {alias}({declared}) __attribute__((alias("{symbol}")));' for alias in aliases),
        "",
    ]
    return "\n".join(lines)


def _texts(function: Prototype) -> int:
    """Return how many lengths of texts the Fortran function takes, behind all other arguments."""
    return sum(_kind(declaration) == "char" for declaration in function.parameters)


def _recorded(function: Prototype, meaning: Meaning) -> tuple[list[str], list[str], list[str]]:
    """Return the statements before the call, after it if it succeeded, and after it in any case."""
    before, after, end = [], [], []
    declared = dict(zip(meaning.parameters, function.parameters, strict=False))
    places = {name: f"a{position}" for position, name in enumerate(meaning.parameters)}
    if "requests" in places:
        statuses = f"(void **)&{places['statuses']}" if "statuses" in places else "NULL"
        count = _value(places["count"], "int")
        before += ["struct waiting held;", f"hold_fortran(&held, {count}, {places['requests']}, {statuses});"]
        after += ["take_fortran_statuses(&held);"] if "statuses" in places else []
        end.append("let_go(&held);")
    if "status" in places:
        before += ["FortranStatus own;", f"{places['status']} = known_status({places['status']}, &own);"]
    for phase, text in ((before, meaning.before), (after, meaning.after)):
        for name in meaning.parameters:
            if name not in ("requests", "statuses") and _is_used(name, text):
                phase += _converted(name, declared[name], places[name], places.get("requests", ""))
        phase += [text] if text else []
    # Declarations before the call are visible after it, too.
    declared_before = [line for line in before if line.endswith("/* value */")]
    after = [line for line in after if line not in declared_before]
    return before, after, end


def _is_used(name: str, text: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None


def _converted(name: str, declaration: str, place: str, requests: str) -> list[str]:
    """Return the statements that declare a parameter of the C function and convert Fortran's argument."""
    kind = _kind(declaration)
    is_pointer = "*" in declaration or "[" in declaration
    if name == "status":
        return ["MPI_Status converted;", f"const MPI_Status *status = status_of({place}, &converted);"]
    if name == "indices":
        return [f"const int *indices = (const int *){place}; /* value */"]
    if kind == "char":
        # Fortran's text has no terminating zero, and its length is not at hand here.
        return [f'const char *{name} = "";']
    if kind == "void":
        return [f"const void *{name} = buffer_of({place}); /* value */"]
    if not is_pointer:
        return [f"{kind} {name} = {_value(place, kind)}; /* value */"]
    value = _value(place, kind)
    if name == "index":
        value = f"index_of(&held, {requests}, {value})"
    return [f"{kind} value_{name} = {value}, *{name} = &value_{name};"]


def _kind(declaration: str) -> str:
    return declaration.replace("const ", "").split()[0].rstrip("*")


def _value(place: str, kind: str) -> str:
    if kind in _HANDLES:
        return f"{_HANDLES[kind]}_of({place})"
    return f"(*({'MPI_Fint' if kind == 'int' else kind} *){place})"
