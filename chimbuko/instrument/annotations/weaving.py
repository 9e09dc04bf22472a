"""Annotation of functions in a Python source, before it is compiled, where their names match patterns.

It does no I/O.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeVar

from chimbuko.core.errors import ConfigError
from chimbuko.instrument.annotations.pointcuts import POINTCUTS

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType


@dataclass(frozen=True)
class NamePattern:
    """Pattern of functions, and the pointcut by which they are recorded."""

    text: str
    module: str
    """Shell pattern of the dotted names of modules; ``*`` stands for any number of parts."""
    function: tuple[str, ...]
    """Shell patterns of the parts of a function's qualified name, one for each part."""
    pointcut: str

    def is_of_module(self, module: str) -> bool:
        """Whether functions of the module may match."""
        return fnmatchcase(module, self.module)

    def matches(self, qualified_name: str) -> bool:
        """Whether a function of such a module matches, given its ``__qualname__``."""
        parts = qualified_name.split(".")
        return len(parts) == len(self.function) and all(map(fnmatchcase, parts, self.function))


def parse_pattern(text: str) -> NamePattern:
    """Return the pattern that ``MODULE:FUNCTION`` or ``MODULE:FUNCTION:POINTCUT`` describes.

    Raises
    ------
    ConfigError
        The text has another form, or the pointcut is unknown.
    """
    module, _, rest = text.partition(":")
    function, _, pointcut = rest.partition(":")
    if not module or not function or "\t" in text:
        raise ConfigError(f"{text!r} is no MODULE:FUNCTION or MODULE:FUNCTION:POINTCUT, as 'pkg.mod:solve*'")
    if pointcut and pointcut not in POINTCUTS:
        raise ConfigError(f"{text!r}: the pointcut is one of {', '.join(POINTCUTS)}, not {pointcut!r}")
    return NamePattern(text, module, tuple(function.split(".")), pointcut or POINTCUTS[0])


Node = TypeVar("Node", bound=ast.AST)

_DECORATOR = "__chimbuko_critical_path__"
_ANNOTATIONS = "chimbuko.instrument.annotations"
_ALREADY = "critical_path"
_COMPILERS = frozenset(
    ("jit", "njit", "vectorize", "guvectorize", "cfunc", "stencil", "overload", "overload_method", "script")
)
"""Last parts of the names of decorators (of Numba, and of Torch) that compile functions, and not wrappers."""


@dataclass(frozen=True)
class Woven:
    """Code of a source with annotated functions."""

    code: CodeType
    met: frozenset[NamePattern]
    """Patterns that a function matches."""


def weave(source: str | bytes, path: str, patterns: Sequence[NamePattern]) -> Woven | None:
    """Annotate the functions that match; return None where none does.

    The annotation is applied before the function's other decorators, so that they wrap or register the
    annotated function. A function that is annotated already, or that a decorator compiles, stays as it is.

    Parameters
    ----------
    path
        Path of the source, for its code.
    patterns
        Patterns of its module.

    Raises
    ------
    SyntaxError, ValueError
        The text is not a Python source.
    """
    tree = ast.parse(source, path)
    weaver = _Weaver(patterns)
    weaver.visit(tree)
    if not weaver.met:
        return None
    if weaver.has_woven:
        at = _beginning(tree.body)
        where = tree.body[min(at, len(tree.body) - 1)]
        names = [ast.alias(name=_ALREADY, asname=_DECORATOR)]
        tree.body.insert(at, _placed(ast.ImportFrom(module=_ANNOTATIONS, names=names, level=0), where))
    code: CodeType = compile(tree, path, "exec", dont_inherit=True)
    return Woven(code, frozenset(weaver.met))


class _Weaver(ast.NodeVisitor):
    def __init__(self, patterns: Sequence[NamePattern]) -> None:
        self.met: set[NamePattern] = set()
        self.has_woven = False
        self._patterns = patterns
        self._outer: list[str] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_within(node, node.name)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._visit_within(node, node.name, "<locals>")
        name = ".".join((*self._outer, node.name))
        matching = [pattern for pattern in self._patterns if pattern.matches(name)]
        self.met.update(matching)
        if matching and not _stays(node):
            self.has_woven = True
            decorator = ast.Call(
                func=ast.Name(id=_DECORATOR, ctx=ast.Load()),
                args=[ast.Constant(value=matching[0].pointcut)],
                keywords=[],
            )
            node.decorator_list.append(_placed(decorator, node))

    visit_AsyncFunctionDef = visit_FunctionDef

    def _visit_within(self, node: ast.AST, *names: str) -> None:
        self._outer += names
        self.generic_visit(node)
        del self._outer[-len(names) :]


def _stays(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    for decorator in node.decorator_list:
        function = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = ast.unparse(function).rpartition(".")[2]
        if name == _ALREADY or name in _COMPILERS:
            return True
    return False


def _beginning(body: list[ast.stmt]) -> int:
    """Return the index of the first statement behind the docstring and the imports from ``__future__``."""
    at = 0
    if isinstance(first := body[0], ast.Expr) and isinstance(first.value, ast.Constant):
        at = int(isinstance(first.value.value, str))
    while at < len(body) and isinstance(found := body[at], ast.ImportFrom) and found.module == "__future__":
        at += 1
    return at


def _placed(node: Node, where: ast.stmt) -> Node:
    """Place a new node on the line of another, so that lines of functions and tracebacks stay as they are."""
    ast.copy_location(node, where)
    if isinstance(node, ast.stmt | ast.expr):
        node.end_lineno, node.end_col_offset = node.lineno, node.col_offset
    return ast.fix_missing_locations(node)
