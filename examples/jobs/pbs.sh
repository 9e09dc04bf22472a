#!/bin/bash -l
#PBS -l select=4:ncpus=40:mpiprocs=40
#PBS -l place=scatter:excl
#PBS -j oe
#PBS -A physics
#PBS -q normal
#PBS -N heat
#PBS -l walltime=2:00:00
# Made by 'chimbuko launch', for qsub, on the job's first node.
# All nodes have to see the folder of the run. Passwords are in files of it that only you can read.
# shellcheck disable=SC2016,SC2029,SC2317,SC2329
module load cray-mpich || exit
set -u
cd "$PBS_O_WORKDIR" || exit
run="$PWD/chimbuko-runs/job-${PBS_JOBID%%.*}"
chimbuko=(chimbuko)
mapfile -t hosts < <(awk '!seen[$0]++' "$PBS_NODEFILE")
first=${hosts[0]}

# A job that is started again, and each further run in one allocation, has a folder of its own.
first_run=$run count=1
while [ -e "$run/run.json" ]; do
    count=$((count + 1)) run=$first_run.$count
done

application='' is_ending=''
end_program() {
    is_ending=1
    echo "chimbuko: asked to end $SECONDS s after its start: the job's time is over, or it is cancelled" >&2
    [ -z "$application" ] || end_ranks
}
end_ranks() {
    kill -TERM "$application" 2>/dev/null
}
trap end_program TERM INT
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

# Nobody says when the job's time is nearly over, so this does.
{
    trap 'kill "$!"' EXIT
    sleep 7080 &
    wait "$!" && kill -TERM $$
} &
clock=$!
trap 'kill "$clock" 2>/dev/null' EXIT

here="$first"
"${chimbuko[@]}" serve "$run" --bind "$here" &
services=$!
until [ -e "$run/broker" ]; do
    if ! kill -0 "$services" 2>/dev/null; then
        wait "$services"
        exit
    fi
    sleep 0.2
done

# The address has a token in it, which is not for those who can read this output.
{
    while [ ! -e "$run/dashboard" ] && kill -0 "$services" 2>/dev/null; do
        sleep 0.2
    done
    if address=$(cat "$run/dashboard" 2>/dev/null); then
        by=${PBS_O_HOST:-}
        port=${address#*://*:} port=${port%%/*}
        echo "chimbuko: to see the page: ssh ${by:+-J "$by" }-L $port:localhost:$port $here" >&2
        echo "chimbuko: then open the address in $run/dashboard" >&2
    fi
} &

# One that is killed comes again, and goes on where it was. A SIGTERM to all processes
# is for the agent: its shell stays, as schedulers may kill what is left when that has ended.
agent=(bash -c 'trap : TERM; while "$@"; code=$?; [ "$code" -gt 128 ]; do sleep 1; done; exit "$code"' agent)
agent+=("${chimbuko[@]}" agent "$run")
agents=()
settings=${PBS_CONF_FILE:-/etc/pbs.conf}
tmrsh=$(command -v pbs_tmrsh || sed -n 's|^PBS_EXEC=\(.*\)|\1/bin/pbs_tmrsh|p' "$settings" 2>/dev/null)
start_agent() {
    if [ -n "$tmrsh" ]; then
        exec "$tmrsh" "$host" "${agent[@]}"
    fi
    exec ssh -n -o BatchMode=yes "$host" "exec $(printf '%q ' "${agent[@]}")"
}
# What modules and you have set goes with it.
agent=(env "PATH=$PATH" "LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}" "${agent[@]}")
for host in "${hosts[@]}"; do
    start_agent &
    agents+=($!)
done
per_host=$(((160 + ${#hosts[@]} - 1) / ${#hosts[@]}))
case $(mpirun --version) in
    *"Open MPI"*)
        printf -v listed "%s:$per_host," "${hosts[@]}"
        on_hosts=(--host "${listed%,}")
        ;;
    *)
        printf -v listed '%s,' "${hosts[@]}"
        on_hosts=(-hosts "${listed%,}" -ppn "$per_host")
        ;;
esac

mpirun -n 160 "${on_hosts[@]}" \
    "$run/settings/node" tau_exec -T mpi,pthread -adios2_trace ./app &
application=$!
[ -z "$is_ending" ] || end_ranks
await "$application"
code=$?

"${chimbuko[@]}" stop "$run" || kill "${agents[@]}"
for one in "$services" "${agents[@]}"; do
    await "$one"
done
exit "$code"
