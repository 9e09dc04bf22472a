"""``chimbuko workflow``: the tasks of a workflow, with services and monitors around them."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click


@click.command("workflow", short_help="Run a workflow's tasks with services, analysis and monitors.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="New folder for what is found.")
@click.option(
    "--advised",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Let the analysis run as that earlier workflow, or run, advises ('chimbuko model agents').",
)
@click.option("--check", is_flag=True, help="Only say whether FILE can be run here.")
def command(file: Path, output: Path | None, advised: Path | None, check: bool) -> None:
    """Run the tasks that FILE (TOML, or YAML with PyYAML) describes, each when those before it are done.

    Services start first (namespaces, and the analysis if FILE has one), then the monitors of nodes, then
    tasks, on the cores that are free; services end last. What tasks do is published in the namespace
    'workflow'. In a job of Slurm tasks are its steps. Ctrl-C ends the tasks, a second one kills them.

    \b
    Examples:
      chimbuko workflow heat.toml
      chimbuko workflow heat.toml -o heat-1
      chimbuko workflow heat.toml --advised heat-1 -o heat-2
      chimbuko workflow heat.toml --check
      salloc --nodes=2 --exclusive chimbuko workflow heat.toml
    """
    from chimbuko.core.units import number_of
    from chimbuko.observe.workflow.advice import follow
    from chimbuko.observe.workflow.children import leave_to_child
    from chimbuko.observe.workflow.description import read_workflow
    from chimbuko.observe.workflow.leader import lead
    from chimbuko.observe.workflow.machines import machine_of
    from chimbuko.provenance.query.placing import advised_cores

    workflow = read_workflow(file)
    if advised is not None:
        workflow = workflow.advised_by(str(advised.absolute()))
    base = file.absolute().parent
    if check:
        machine = machine_of(os.environ, workflow.mpirun, workflow.is_exclusive)
        machine, _ = follow(workflow, machine, base, advised_cores)
        cores = sum(len(node.cores) for node in machine.nodes)
        tasks, nodes = number_of(len(workflow.tasks), "tasks"), number_of(len(machine.nodes), "nodes")
        print(f"{file}: {tasks} can run on {nodes} with {number_of(cores, 'cores')}")
        return
    folder = output or Path("chimbuko-workflows") / f"{file.stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    leave_to_child()
    sys.exit(lead(workflow, base, folder, advised_cores))
