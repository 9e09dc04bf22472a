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
        if error.name != "sitecustomize":
            raise
        # The import system expects to find the module that it has just loaded.
        sys.modules["sitecustomize"] = ours  # type: ignore[assignment]


def _join_family():
    # type: () -> None
    if "CHIMBUKO_FAMILY" not in os.environ or sys.version_info < (3, 11):
        return
    sys.path.insert(0, _PACKAGE_HOME)
    try:
        from chimbuko.instrument.annotations.standin import StandIn
        from chimbuko.instrument.tracer import session

        session.start_as_member()
        StandIn("chimbuko.instrument.annotations.perfflowaspect").install()
        if "CHIMBUKO_ASPECTS" in os.environ:
            from chimbuko.instrument.annotations import importhook

            importhook.install_from_environment()
    finally:
        sys.path.remove(_PACKAGE_HOME)


try:  # noqa: SIM105
    _join_family()
except Exception:
    # An error must not harm the program; the process that started it reports that it was not traced.
    pass
_give_way()
