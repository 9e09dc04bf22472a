"""Start of tracing in each interpreter that a traced program starts, which imports this module first.

Any version of Python may run it, and its path and module give way to those of the program.
"""

import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_PACKAGE_HOME = os.path.dirname(os.path.dirname(os.path.dirname(_FOLDER)))


def _give_way():
    # type: () -> None
    """Import the ``sitecustomize`` that would have been found without ours."""
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _FOLDER]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # type: ignore[import-not-found] # noqa: F401
    except ImportError as error:
        # Python 2 does not say which module is missing.
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
        # The import system expects to find the module that it has just loaded.
        sys.modules["sitecustomize"] = ours  # type: ignore[assignment]


def _join_family(is_first):
    # type: (bool) -> None
    if "CHIMBUKO_FAMILY" not in os.environ:
        return
    version = tuple(sys.version_info[:2])
    if version < (3, 11):
        if is_first:
            _say("functions of Python {}.{} are not recorded: take 3.11 or newer".format(*version))
        return
    sys.path.insert(0, _PACKAGE_HOME)
    try:
        from chimbuko.instrument.annotations.importhook import StandIn
        from chimbuko.instrument.extensions.importhook import MpiImport, watch_imports
        from chimbuko.instrument.tracer import session

        session.start_as_member(is_first)
        MpiImport().install()
        watch_imports()
        StandIn("chimbuko.instrument.annotations.perfflowaspect").install()
        if "CHIMBUKO_ASPECTS" in os.environ:
            from chimbuko.instrument.annotations import importhook

            importhook.install_from_environment()
    finally:
        sys.path.remove(_PACKAGE_HOME)


def _say(text):
    # type: (str) -> None
    sys.stderr.write("chimbuko: " + text + "\n")


# The process that ``chimbuko trace`` has become: nobody else can report that it is not traced.
_is_first = os.environ.pop("CHIMBUKO_FAMILY_FIRST", "") == str(os.getpid())
try:
    _join_family(_is_first)
except Exception as error:
    # An error must not harm the program; the process that started it reports that it was not traced.
    if _is_first:
        _say("the program is not traced: " + str(error))
_give_way()
