"""Manual page of the command, which a wheel installs.

Run: python -m chimbuko.cli.manual
"""

from __future__ import annotations

from chimbuko import __version__
from chimbuko.cli import SECTIONS

_HEAD = """\
.TH CHIMBUKO 1 "" "Chimbuko {version}" "User commands"
.SH NAME
chimbuko \\- find the abnormally slow calls of a running parallel program
.SH SYNOPSIS
.B chimbuko
[\\fB\\-v\\fR] \\fIVERB\\fR [\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]
.SH DESCRIPTION
Chimbuko watches a parallel program while it runs, finds the calls that were abnormally slow, and says why.
.B chimbuko run
in front of a program is the usual begin,
.B chimbuko incidents
and
.B chimbuko view
show what was found. Each verb has a page of its own:
.BR "chimbuko \\fIVERB\\fB \\-\\-help" .
"""
_TAIL = """\
.SH FILES
.TP
.I chimbuko-runs/
Runs of this folder, each in a folder of its name. A verb without RUN takes the newest.
.TP
.I ~/.cache/chimbuko
Recorders, kernels and names of functions, which are made again where they are removed.
.SH ENVIRONMENT
.TP
.B CHIMBUKO_STORE, CHIMBUKO_BROKER, CHIMBUKO_NAMESPACES
Services of your own, as the options of these names.
.TP
.B CHIMBUKO_LOG
With
.B debug
lines of logs have their time and process, and errors say where they come from, as with \\fB\\-v\\fR.
.TP
.B NO_COLOR
No colours.
.SH EXIT STATUS
That of the program, of verbs that run one. Else 0, or 2 for an option, file or folder that cannot be used,
3 for a trace, 4 for a service, 5 for a store; 130 after Ctrl-C.
"""


def manual() -> str:
    """Return the page, in the language of man."""
    parts = [_HEAD.format(version=__version__)]
    for heading, verbs in SECTIONS.items():
        parts.append(f'.SH "{heading.upper()}"\n')
        parts += [f".TP\n.B {_plain(verb)}\n{_plain(text)}\n" for verb, text in verbs.items()]
    return "".join([*parts, _TAIL])


def _plain(text: str) -> str:
    """Return a text in which nothing is a command of man."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    print(manual(), end="")
