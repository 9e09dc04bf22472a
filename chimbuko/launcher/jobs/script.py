"""The script that all schedulers share: services, agents and the program, up to an orderly end."""

from __future__ import annotations

import shlex
from pathlib import Path

from chimbuko.launcher.jobs.job import NOTICE_S, Job, Request, Scheduler

JOINS_PER_S = 600
"""Agents that join in a second, where there are more nodes than that; services accept them faster."""


def job_script(job: Job, scheduler: Scheduler, request: Request | None = None) -> str:
    """Return the text of the script, for bash.

    Parameters
    ----------
    request
        What the scheduler is asked for; None if the nodes are held already.
    """
    folder = shlex.quote(str(job.run.absolute())) if job.run else f'"$PWD/chimbuko-runs/job-{scheduler.job}"'
    command = "" if job.archive else f"chimbuko=({_command(job)})\n"
    clock_s = request.time_s if request and not scheduler.gives_notice else None
    parts = [
        "\n".join(["#!/bin/bash -l" if job.modules else "#!/bin/bash", *scheduler.directives]),
        f"""\
# Made by 'chimbuko launch', for {scheduler.by}.
# All nodes have to see the folder of the run. Passwords are in files of it that only you can read.
# shellcheck disable=SC2016,SC2029,SC2317,SC2329""",
        "".join(f"module load {shlex.quote(module)} || exit\n" for module in job.modules) + "set -u",
        f'cd "{scheduler.folder}" || exit' if scheduler.folder else "",
        f"""\
run={folder}
{command}{scheduler.hosts}
""",
        _unpacked(job.archive, scheduler) if job.archive else "",
        _FOLDER,
        _END.replace("SIGNALS", " ".join(scheduler.signals)).replace(
            "ENDS", scheduler.end if job.program else _STOP
        ),
        clock(clock_s - NOTICE_S) if clock_s else "",
        f"""\
here={f'"{scheduler.here}"'}
"${{chimbuko[@]}}" serve "$run" {_serve_options(job, scheduler)} &
services=$!""",
        _SERVICES,
        _page(scheduler.submit_host),
        _agent(job, scheduler),
        _run(job, scheduler) if job.program else _READ,
    ]
    return "\n".join(part for part in parts if part)


def _run(job: Job, scheduler: Scheduler) -> str:
    return f"""\
{scheduler.ranks} \\
    "$run/settings/node" {shlex.join(job.program)} &
application=$!
{_WAIT}"""


def _command(job: Job) -> str:
    """Return the words that run ``chimbuko`` where it is."""
    if job.container is None:
        return shlex.join(job.chimbuko)
    folders = ['"$PWD"', *([shlex.quote(str(job.run.absolute().parent))] if job.run else [])]
    bound = " ".join(f"--bind {folder}" for folder in folders)
    return f"apptainer exec {bound} {shlex.quote(str(job.container.absolute()))} chimbuko"


def _unpacked(archive: Path, scheduler: Scheduler) -> str:
    """Unpacks the archive for the services."""
    parts = [f"archive={shlex.quote(str(archive.absolute()))} sent=''", scheduler.send, _HOME]
    return "\n".join(part for part in parts if part)


def _agent(job: Job, scheduler: Scheduler) -> str:
    """Starts an agent on each node, by the installation there or by one that is unpacked for it."""
    loop = _UNPACKING if job.archive else _LOOP
    first = '"$archive"' if job.archive else '"${chimbuko[@]}"'
    return f"""\
{_AGENT_WORDS}
on_nodes="{scheduler.count}" later=$((on_nodes / {JOINS_PER_S}))
agent=(bash -c '{loop}' agent "$later" {first})
agent+=(agent "$run"{_cores(job)})
agents=()
{scheduler.agents}
"""


def _serve_options(job: Job, scheduler: Scheduler) -> str:
    options = ["--bind", shlex.quote(job.bind) if job.bind else '"$here"']
    for pattern in job.traces:
        options += ["--trace", shlex.quote(str(Path(pattern).absolute()))]
    if job.traces:
        options += ["--agents", f'"{scheduler.count}"']
    if job.streams is not None:
        options += ["--streams", shlex.quote(str(job.streams))]
    if job.config is not None:
        options += ["--config", shlex.quote(str(job.config.absolute()))]
    if job.period_s is not None:
        options += ["--period", f"{job.period_s:g}"]
    if job.transport is not None:
        options += ["--transport", job.transport]
    return " ".join(options)


def _cores(job: Job) -> str:
    return f' --cores "{job.cores}"' if job.cores else ""


_FOLDER = """\
# A job that is started again, and each further run in one allocation, has a folder of its own.
first_run=$run count=1
while [ -e "$run/run.json" ]; do
    count=$((count + 1)) run=$first_run.$count
done
"""

_END = """\
application='' is_ending=''
end_program() {
    is_ending=1
    echo "chimbuko: asked to end $SECONDS s after its start: the job's time is over, or it is cancelled" >&2
    [ -z "$application" ] || end_ranks
}
end_ranks() {
    ENDS
}
trap end_program SIGNALS
# A signal ends the waiting, but not yet what is waited for.
await() {
    local code
    wait "$1"
    code=$?
    while kill -0 "$1" 2>/dev/null; do
        wait "$1"
        code=$?
    done
    return "$code"
}
"""

_SERVICES = """\
until [ -e "$run/broker" ]; do
    if ! kill -0 "$services" 2>/dev/null; then
        wait "$services"
        exit
    fi
    sleep 0.2
done
"""

_HOME = """\
home=$(mktemp -d "${TMPDIR:-/tmp}/chimbuko.XXXXXX") && tar -xzf "$archive" -C "$home" || exit
trap 'rm -rf "$home" "$sent"' EXIT
chimbuko=("$home/bin/chimbuko")
"""

_AGENT_WORDS = """\
# One that is killed comes again, and goes on where it was. A SIGTERM to all processes
# is for the agent: its shell stays, as schedulers may kill what is left when that has ended.
# Those of many nodes come one after the other, each at a moment of chance."""

_LOOP = """trap : TERM
sleep "$((RANDOM % ($1 + 1)))"; shift
while "$@"; code=$?; [ "$code" -gt 128 ]; do sleep 1; done; exit "$code\""""

_UNPACKING = """trap : TERM
sleep "$((RANDOM % ($1 + 1)))"
home=$(mktemp -d "${TMPDIR:-/tmp}/chimbuko.XXXXXX") && tar -xzf "$2" -C "$home" || exit
case "$2" in "/tmp/chimbuko-${SLURM_JOB_ID:-}-"*) rm -f "$2" ;; esac
shift 2
while "$home/bin/chimbuko" "$@"; code=$?; [ "$code" -gt 128 ]; do sleep 1; done
rm -rf "$home"; exit "$code\""""

_WAIT = """\
[ -z "$is_ending" ] || end_ranks
await "$application"
code=$?

"${chimbuko[@]}" stop "$run" || kill "${agents[@]}"
for one in "$services" "${agents[@]}"; do
    await "$one"
done
exit "$code"
"""

_STOP = '"${chimbuko[@]}" stop "$run"'

_READ = """\
# The services end when all shares of the trace are read: never where more are left than there are agents.
application=$services
[ -z "$is_ending" ] || end_ranks
while [ -z "$is_ending" ] && kill -0 "$services" 2>/dev/null; do
    sleep 1 &
    wait "$!"
    gone=()
    for at in "${!agents[@]}"; do
        kill -0 "${agents[at]}" 2>/dev/null || gone+=("$at")
    done
    unread=$(find "$run/shares" -name '[0-9]*' ! -name '*-read' | wc -l)
    if [ "${#gone[@]}" -gt 0 ] && [ "$unread" -gt "$((${#agents[@]} - ${#gone[@]}))" ]; then
        for at in "${gone[@]}"; do
            wait "${agents[at]}"
            # shellcheck disable=SC2154
            echo "chimbuko: agent ${hosts[at]:+on ${hosts[at]} }ended, code $?; nobody reads its share" >&2
        done
        end_ranks
        break
    fi
done
await "$application"
code=$?
[ "$code" -eq 0 ] || kill "${agents[@]}" 2>/dev/null
for one in "${agents[@]}"; do
    await "$one"
done
exit "$code"
"""


def clock(after_s: int) -> str:
    """Asks the script itself to end, ``after_s`` seconds later; it leaves nothing behind that runs."""
    return f"""\
# Nobody says when the job's time is nearly over, so this does.
{{
    trap 'kill "$!"' EXIT
    sleep {after_s} &
    wait "$!" && kill -TERM $$
}} &
clock=$!
home=${{home:-}} sent=${{sent:-}}
trap 'kill "$clock" 2>/dev/null; rm -rf "$home" "$sent"' EXIT
"""


def _page(submit_host: str) -> str:
    by = f"\n        by={submit_host}" if submit_host else ""
    jump = '${by:+-J "$by" }' if submit_host else ""
    return f"""\
# The address has a token in it, which is not for those who can read this output.
{{
    while [ ! -e "$run/dashboard" ] && kill -0 "$services" 2>/dev/null; do
        sleep 0.2
    done
    if address=$(cat "$run/dashboard" 2>/dev/null); then{by}
        port=${{address#*://*:}} port=${{port%%/*}}
        echo "chimbuko: to see the page: ssh {jump}-L $port:localhost:$port $here" >&2
        echo "chimbuko: then open the address in $run/dashboard" >&2
    fi
}} &
"""
