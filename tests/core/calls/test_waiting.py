"""Which functions wait, and for whom."""

from __future__ import annotations

import pytest

from chimbuko.core.calls.waiting import (
    Waits,
    is_communication,
    puts_into_gpu_queue,
    waits_for_gpu,
    waits_in,
)

OF = {
    Waits.RECEIVE: [
        "MPI_Recv()",
        "MPI_Waitall()",
        "MPI_Wait()",
        "MPI_Sendrecv()",
        "MPI_Probe()",
        "MPI_Win_wait()",
        "gloo:recv",
    ],
    Waits.SEND: [
        *("MPI_Send()", "MPI_Ssend()", "nccl:send"),
        *(
            "MPI_Win_flush()",
            "MPI_Win_flush_local_all()",
            "MPI_Win_lock()",
            "MPI_Win_unlock()",
            "MPI_Win_start()",
        ),
    ],
    Waits.COLLECTIVE: [
        *("MPI_Barrier()", "MPI_Bcast()", "MPI_Allreduce()", "MPI_Alltoallv()", "MPI_Comm_split()"),
        *(
            "gloo:all_reduce",
            "nccl:broadcast",
            "_c10d_functional::wait_tensor",
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage)",
        ),
        *("MPI_Cart_create()", "MPI_Intercomm_merge()", "MPI_Dist_graph_create()", "PMPI_Bcast_c()"),
        *("MPI Collective Sync", "MPI_Reduce_scatter_block()", "MPI_Win_fence()", "MPI_File_write_all()"),
    ],
    Waits.NOT: [
        *(
            "MPI_Isend()",
            "MPI_Irecv()",
            "MPI_Iallreduce()",
            "MPI_Start()",
            "MPI_Comm_rank()",
            "MPI_Alloc_mem()",
            "MPI_Win_post()",
            "MPI_Win_set_name()",
            "MPI_Comm_create_errhandler()",
            "MPI_Comm_free_keyval()",
            "MPI_Test_cancelled()",
            "MPI_Ineighbor_allgather()",
        ),
        "c10d::allreduce_",
        *("MPI_Send_init()", "MPI_Get_count()", "relax [{heat.c} {1,0}]", "waitall", "MPInput::read"),
    ],
}


@pytest.mark.parametrize(("waits", "name"), [(waits, name) for waits, names in OF.items() for name in names])
def test_name_says_for_whom_a_call_waits(waits: Waits, name: str) -> None:
    assert waits_in(name) is waits


def test_communication_is_mpi_and_what_tools_add_to_it() -> None:
    assert is_communication("MPI_Isend()")
    assert is_communication("MPI Collective Sync")
    assert not is_communication("MPInput::read")


AWAITED = ["cudaDeviceSynchronize", "cuStreamSynchronize", "hipMemcpy", "cuMemcpyDtoH_v2", "clFinish()"]
AWAITED += ["zeCommandQueueSynchronize", "cudaEventSynchronize"]
QUEUED = ["cudaLaunchKernel", "cuLaunchKernelEx", "hipModuleLaunchKernel", "hipExtModuleLaunchKernel"]
QUEUED += ["cudaMemcpyAsync", "cuMemsetD8Async", "clEnqueueNDRangeKernel", "zeCommandListAppendLaunchKernel"]


def test_names_of_gpus_interfaces_say_whether_a_call_waits_for_what_was_queued() -> None:
    neither = ["cudaMalloc", "cuteSynchronize", "zeroAppendix", "compute", "clFinished", "MPI_Wait()"]
    for awaited, queued, names in ((True, False, AWAITED), (False, True, QUEUED), (False, False, neither)):
        assert [(waits_for_gpu(one), puts_into_gpu_queue(one)) for one in names] == [(awaited, queued)] * len(
            names
        )
