"""A run is named after its program."""

from __future__ import annotations

import shlex

import pytest

from chimbuko.runtime.runs.programname import as_folder, program_of


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("./heat2d 64", "heat2d"),
        ("mpirun -n 4 ./heat2d --size 64", "heat2d"),
        ("mpirun.openmpi --oversubscribe -n 2 chimbuko trace ./heat2d", "heat2d"),
        ("/opt/bin/mpiexec -np 4 --map-by core -x OMP_NUM_THREADS ./heat2d", "heat2d"),
        ("mpirun -genv A 1 --mca btl tcp -n 2 chimbuko trace ./heat2d", "heat2d"),
        ("srun -N2 --ntasks 8 --cpu-bind=cores tau_exec -T mpi,pthread -adios2_trace ./heat2d", "heat2d"),
        ("chimbuko trace etl.py --rows 5", "etl"),
        ("chimbuko trace --rank 3 --aspect a:b etl.py", "etl"),
        ("chimbuko trace -m pkg.etl", "pkg.etl"),
        ("chimbuko namespaces relay -- ./heat2d --steps 5", "heat2d"),
        ("chimbuko namespaces relay --service s -- chimbuko trace ./heat2d", "heat2d"),
        ("chimbuko namespaces caliper --program p --folder f -- mpirun -n 2 ./lulesh -s 4", "lulesh"),
        ("python3.11 -u -W ignore etl.py", "etl"),
        ("python -m pkg.etl -m 3", "pkg.etl"),
        ("python -m chimbuko trace etl.py", "etl"),
        ("mpirun -n 2 python -m chimbuko trace /tmp/heat_mpi --seed 1", "heat_mpi"),
        ("env A=1 B='x y' time -p nice -n 5 ./etl", "etl"),
        ("timeout -k 5 60 taskset -c 0,1 ./heat2d", "heat2d"),
        ("bash -e job.sh", "job.sh"),
        ("bash -lc './heat2d 3'", "bash"),
        ("python -c 'print()'", "python"),
        ("chimbuko follow --trace x.json", "chimbuko"),
        ("python -m chimbuko attach 4711 --program etl --for 3s", "etl"),
        ("mpirun", "mpirun"),
        ("python", "python"),
    ],
)
def test_the_program_behind_what_starts_it(command: str, program: str) -> None:
    assert program_of(shlex.split(command)) == program


def test_a_folder_of_that_name_can_be_typed() -> None:
    assert [as_folder(name) for name in ("heat2d", "mésh++", "my etl\x1b[2J\u202e")] == [
        "heat2d",
        "mésh++",
        "my-etl-2J-",
    ]
