#!/bin/bash
#SBATCH --nodes=5
#SBATCH --time=2:00:00
#SBATCH --account=physics
#SBATCH --partition=normal
#SBATCH --job-name=heat
#SBATCH --signal=B:TERM@120
#SBATCH --exclusive
# Made by 'chimbuko launch', for sbatch, on the job's first node.
# All nodes have to see the folder of the run. Passwords are in files of it that only you can read.
# shellcheck disable=SC2016,SC2029,SC2317,SC2329
set -u
run="$PWD/chimbuko-runs/job-$SLURM_JOB_ID"
chimbuko=(chimbuko)
nodes=$((SLURM_JOB_NUM_NODES - 1))

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
    # SIGTERM to srun itself would kill its ranks at once.
    local steps
    steps=$(squeue --noheader --steps --jobs="$SLURM_JOB_ID" --format='%i %j' |
        awk -v name="chimbuko-$$" '$2 == name { print $1 }')
    if [ -n "$steps" ]; then
        scancel --quiet --signal=TERM "$steps"
    else
        kill -TERM "$application" 2>/dev/null
    fi
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

here="${SLURMD_NODENAME:-$(uname -n)}"
"${chimbuko[@]}" serve "$run" --bind ib0 &
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
        by=${SLURM_SUBMIT_HOST:-}
        port=${address#*://*:} port=${port%%/*}
        echo "chimbuko: to see the page: ssh ${by:+-J "$by" }-L $port:localhost:$port $here" >&2
        echo "chimbuko: then open the address in $run/dashboard" >&2
    fi
} &

# One that is killed comes again, and goes on where it was. A SIGTERM to all processes
# is for the agent: its shell stays, as schedulers may kill what is left when that has ended.
agent=(bash -c 'trap : TERM; while "$@"; code=$?; [ "$code" -gt 128 ]; do sleep 1; done; exit "$code"' agent)
agent+=("${chimbuko[@]}" agent "$run" --cores "0")
agents=()
# Agents take no cores or memory from the ranks' share (--overlap), and no core is chosen for them.
srun --nodes="$nodes" --relative=1 --ntasks="$nodes" --ntasks-per-node=1 --overlap --cpu-bind=none \
    "${agent[@]}" &
agents+=($!)

srun --job-name="chimbuko-$$" --nodes="$nodes" --relative=1 --ntasks=160 \
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
