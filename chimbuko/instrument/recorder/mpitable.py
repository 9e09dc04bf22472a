"""Table of the meaning of MPI's functions: the messages, requests and communicators in their arguments.

A line of the table has names of functions, their parameters by position, what to do before the call, and what
to do after it if it succeeded; ``library/messages.h`` has what can be done. A line of the collectives has the
root and the size of what is sent instead. Functions of counts beyond 2^31 (``MPI_Send_c``) mean the same as
those of their name without ``_c``. Functions that are not here are recorded as calls, with nothing else.
``chimbuko.core.calls.waiting`` says which functions wait for other ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

_NO_SIZE = "NULL, 0, MPI_DATATYPE_NULL"

_TABLE = """
MPI_Init : argc argv : before_init() : after_init()
MPI_Init_thread : argc argv required provided : before_init() : after_init()

MPI_Abort : comm errorcode : note_end(CALLED_ABORT, errorcode) :

MPI_Send MPI_Bsend MPI_Ssend MPI_Rsend
    : buf count datatype dest tag comm : sent(count, datatype, dest, tag, comm) :
MPI_Isend MPI_Ibsend MPI_Issend MPI_Irsend : buf count datatype dest tag comm request
    : uint32_t number = send_begun(count, datatype, dest, tag, comm)
    : request_made(number, false, comm, *request)
MPI_Recv : buf count datatype source tag comm status : : received(status, comm)
MPI_Irecv : buf count datatype source tag comm request
    : uint32_t number = receive_posted(count, datatype, source, tag, comm)
    : request_made(number, true, comm, *request)
MPI_Sendrecv : sendbuf sendcount sendtype dest sendtag recvbuf recvcount recvtype source recvtag comm status
    : sent(sendcount, sendtype, dest, sendtag, comm) : received(status, comm)
MPI_Sendrecv_replace : buf count datatype dest sendtag source recvtag comm status
    : sent(count, datatype, dest, sendtag, comm) : received(status, comm)
MPI_Isendrecv : sendbuf sendcount sendtype dest sendtag recvbuf recvcount recvtype source recvtag comm request
    : sent(sendcount, sendtype, dest, sendtag, comm);
      uint32_t number = receive_posted(recvcount, recvtype, source, recvtag, comm)
    : request_made(number, true, comm, *request)
MPI_Isendrecv_replace : buf count datatype dest sendtag source recvtag comm request
    : sent(count, datatype, dest, sendtag, comm);
      uint32_t number = receive_posted(count, datatype, source, recvtag, comm)
    : request_made(number, true, comm, *request)
MPI_Mprobe : source tag comm message status : : matched(*message, comm)
MPI_Improbe : source tag comm flag message status : : if (*flag) matched(*message, comm)
MPI_Mrecv : buf count datatype message status
    : uint64_t held = HANDLE(*message) : matched_received(held, status)
MPI_Imrecv : buf count datatype message request
    : uint64_t held = HANDLE(*message) : matched_receive_begun(held, *request)

MPI_Send_init MPI_Bsend_init MPI_Ssend_init MPI_Rsend_init : buf count datatype dest tag comm request
    : : send_prepared(count, datatype, dest, tag, comm, *request)
MPI_Recv_init : buf count datatype source tag comm request
    : : receive_prepared(count, datatype, source, tag, comm, *request)
MPI_Psend_init : buf partitions count datatype dest tag comm info request
    : : send_prepared((int64_t)partitions * count, datatype, dest, tag, comm, *request)
MPI_Precv_init : buf partitions count datatype source tag comm info request
    : : receive_prepared((int64_t)partitions * count, datatype, source, tag, comm, *request)
MPI_Start : request : started(HANDLE(*request)) :
MPI_Startall : count requests : started_all(&held, count) :
MPI_Request_free : request : forgotten(HANDLE(*request)) :

MPI_Wait : request status : uint64_t held = HANDLE(*request) : completed(held, status)
MPI_Test : request flag status : uint64_t held = HANDLE(*request) : if (*flag) completed(held, status)
MPI_Waitall : count requests statuses : : completed_all(&held, count)
MPI_Testall : count requests flag statuses : : if (*flag) completed_all(&held, count)
MPI_Waitany : count requests index status : : completed_any(&held, *index, status)
MPI_Testany : count requests index flag status : : if (*flag) completed_any(&held, *index, status)
MPI_Waitsome MPI_Testsome : count requests outcount indices statuses
    : : if (*outcount > 0) completed_some(&held, *outcount, indices)

MPI_Comm_dup : comm newcomm : collective(comm, NO_ROOT, NO_SIZE) : communicator_made(comm, *newcomm)
MPI_Comm_dup_with_info : comm info newcomm
    : collective(comm, NO_ROOT, NO_SIZE) : communicator_made(comm, *newcomm)
MPI_Comm_idup : comm newcomm request
    : uint32_t number = collective_begun(comm, NO_ROOT, NO_SIZE) : request_made(number, false, comm, *request)
MPI_Comm_idup_with_info : comm info newcomm request
    : uint32_t number = collective_begun(comm, NO_ROOT, NO_SIZE) : request_made(number, false, comm, *request)
MPI_Comm_create : comm group newcomm : collective(comm, NO_ROOT, NO_SIZE) : communicator_made(comm, *newcomm)
MPI_Comm_split
    : comm color key newcomm : collective(comm, NO_ROOT, NO_SIZE) : communicator_made(comm, *newcomm)
MPI_Comm_split_type : comm split_type key info newcomm
    : collective(comm, NO_ROOT, NO_SIZE) : communicator_made(comm, *newcomm)
MPI_Cart_create : comm ndims dims periods reorder newcomm
    : collective(comm, NO_ROOT, NO_SIZE) : communicator_made(comm, *newcomm)
MPI_Cart_sub
    : comm remain_dims newcomm : collective(comm, NO_ROOT, NO_SIZE) : communicator_made(comm, *newcomm)
MPI_Graph_create : comm nnodes index edges reorder newcomm
    : collective(comm, NO_ROOT, NO_SIZE) : communicator_made(comm, *newcomm)
MPI_Dist_graph_create : comm n sources degrees destinations weights info reorder newcomm
    : collective(comm, NO_ROOT, NO_SIZE) : communicator_made(comm, *newcomm)
MPI_Dist_graph_create_adjacent
    : comm indegree sources sourceweights outdegree destinations destweights info reorder newcomm
    : collective(comm, NO_ROOT, NO_SIZE) : communicator_made(comm, *newcomm)
MPI_Intercomm_merge
    : comm high newcomm : collective(comm, NO_ROOT, NO_SIZE) : communicator_made(comm, *newcomm)
MPI_Comm_create_group : comm group tag newcomm : : communicator_made_by_group(comm, tag, *newcomm)
MPI_Intercomm_create : local_comm local_leader peer_comm remote_leader tag newcomm
    : : communicator_made_between(tag, *newcomm)
MPI_Comm_spawn : command argv maxprocs info root comm newcomm errcodes : collective(comm, root, NO_SIZE) :
MPI_Comm_spawn_multiple : count commands argvs maxprocs infos root comm newcomm errcodes
    : collective(comm, root, NO_SIZE) :
MPI_Session_init : info errhandler session : : session_made(*session)
MPI_Session_finalize : session : session_ends(HANDLE(*session)) :
MPI_Comm_create_from_group : group stringtag info errhandler newcomm
    : : communicator_made_from_group(stringtag, *newcomm)
MPI_Comm_free MPI_Comm_disconnect : comm : communicator_gone(HANDLE(*comm)) :

MPI_Win_create
    : base size disp_unit info comm win : collective(comm, NO_ROOT, NO_SIZE) : window_made(comm, *win)
MPI_Win_allocate MPI_Win_allocate_shared : size disp_unit info comm baseptr win
    : collective(comm, NO_ROOT, NO_SIZE) : window_made(comm, *win)
MPI_Win_create_dynamic : info comm win : collective(comm, NO_ROOT, NO_SIZE) : window_made(comm, *win)
MPI_Win_free : win : collective_of_window(*win); window_gone(HANDLE(*win)) :
MPI_Win_fence : assert win : collective_of_window(win) :
MPI_Win_lock : lock_type rank assert win : reached(SYNCHRONISATION, 0, MPI_DATATYPE_NULL, rank, win) :
MPI_Win_unlock MPI_Win_flush MPI_Win_flush_local : rank win
    : reached(SYNCHRONISATION, 0, MPI_DATATYPE_NULL, rank, win) :
MPI_Win_lock_all : assert win : reached(SYNCHRONISATION, 0, MPI_DATATYPE_NULL, NO_ROOT, win) :
MPI_Win_unlock_all MPI_Win_flush_all MPI_Win_flush_local_all MPI_Win_complete MPI_Win_wait : win
    : reached(SYNCHRONISATION, 0, MPI_DATATYPE_NULL, NO_ROOT, win) :
MPI_Win_start MPI_Win_post : group assert win : reached(SYNCHRONISATION, 0, MPI_DATATYPE_NULL, NO_ROOT, win) :
MPI_Put MPI_Get
    : origin_addr origin_count origin_datatype target_rank target_disp target_count target_datatype win
    : reached(ONE_SIDED, origin_count, origin_datatype, target_rank, win) :
MPI_Rput MPI_Rget
    : origin_addr origin_count origin_datatype target_rank target_disp target_count target_datatype
      win request
    : uint32_t number = reach_begun(origin_count, origin_datatype, target_rank, win)
    : request_made(number, false, MPI_COMM_NULL, *request)
MPI_Accumulate
    : origin_addr origin_count origin_datatype target_rank target_disp target_count target_datatype op win
    : reached(ONE_SIDED, origin_count, origin_datatype, target_rank, win) :
MPI_Raccumulate
    : origin_addr origin_count origin_datatype target_rank target_disp target_count target_datatype
      op win request
    : uint32_t number = reach_begun(origin_count, origin_datatype, target_rank, win)
    : request_made(number, false, MPI_COMM_NULL, *request)
MPI_Get_accumulate
    : origin_addr origin_count origin_datatype result_addr result_count result_datatype
      target_rank target_disp target_count target_datatype op win
    : reached(ONE_SIDED, result_count, result_datatype, target_rank, win) :
MPI_Rget_accumulate
    : origin_addr origin_count origin_datatype result_addr result_count result_datatype
      target_rank target_disp target_count target_datatype op win request
    : uint32_t number = reach_begun(result_count, result_datatype, target_rank, win)
    : request_made(number, false, MPI_COMM_NULL, *request)
MPI_Fetch_and_op : origin_addr result_addr datatype target_rank target_disp op win
    : reached(ONE_SIDED, 1, datatype, target_rank, win) :
MPI_Compare_and_swap : origin_addr compare_addr result_addr datatype target_rank target_disp win
    : reached(ONE_SIDED, 1, datatype, target_rank, win) :
"""

_COLLECTIVE = """
MPI_Barrier MPI_Ibarrier MPI_Barrier_init : comm : NO_ROOT, NO_SIZE
MPI_Bcast MPI_Ibcast MPI_Bcast_init : buffer count datatype root comm : root, NULL, count, datatype
MPI_Gather MPI_Igather MPI_Gather_init
    : sendbuf sendcount sendtype recvbuf recvcount recvtype root comm : root, sendbuf, sendcount, sendtype
MPI_Gatherv MPI_Igatherv MPI_Gatherv_init
    : sendbuf sendcount sendtype recvbuf recvcounts displs recvtype root comm
    : root, sendbuf, sendcount, sendtype
MPI_Scatter MPI_Iscatter MPI_Scatter_init
    : sendbuf sendcount sendtype recvbuf recvcount recvtype root comm : root, recvbuf, recvcount, recvtype
MPI_Scatterv MPI_Iscatterv MPI_Scatterv_init
    : sendbuf sendcounts displs sendtype recvbuf recvcount recvtype root comm
    : root, recvbuf, recvcount, recvtype
MPI_Allgather MPI_Iallgather MPI_Allgather_init
    MPI_Alltoall MPI_Ialltoall MPI_Alltoall_init
    MPI_Neighbor_allgather MPI_Ineighbor_allgather MPI_Neighbor_allgather_init
    MPI_Neighbor_alltoall MPI_Ineighbor_alltoall MPI_Neighbor_alltoall_init
    : sendbuf sendcount sendtype recvbuf recvcount recvtype comm : NO_ROOT, sendbuf, sendcount, sendtype
MPI_Allgatherv MPI_Iallgatherv MPI_Allgatherv_init
    MPI_Neighbor_allgatherv MPI_Ineighbor_allgatherv MPI_Neighbor_allgatherv_init
    : sendbuf sendcount sendtype recvbuf recvcounts displs recvtype comm
    : NO_ROOT, sendbuf, sendcount, sendtype
MPI_Alltoallv MPI_Ialltoallv MPI_Alltoallv_init
    MPI_Neighbor_alltoallv MPI_Ineighbor_alltoallv MPI_Neighbor_alltoallv_init
    : sendbuf sendcounts sdispls sendtype recvbuf recvcounts rdispls recvtype comm
    : NO_ROOT, NO_SIZE
MPI_Alltoallw MPI_Ialltoallw MPI_Alltoallw_init
    MPI_Neighbor_alltoallw MPI_Ineighbor_alltoallw MPI_Neighbor_alltoallw_init
    : sendbuf sendcounts sdispls sendtypes recvbuf recvcounts rdispls recvtypes comm
    : NO_ROOT, NO_SIZE
MPI_Reduce MPI_Ireduce MPI_Reduce_init
    : sendbuf recvbuf count datatype op root comm : root, NULL, count, datatype
MPI_Allreduce MPI_Iallreduce MPI_Allreduce_init
    MPI_Scan MPI_Iscan MPI_Scan_init
    MPI_Exscan MPI_Iexscan MPI_Exscan_init
    : sendbuf recvbuf count datatype op comm : NO_ROOT, NULL, count, datatype
MPI_Reduce_scatter MPI_Ireduce_scatter MPI_Reduce_scatter_init
    : sendbuf recvbuf recvcounts datatype op comm : NO_ROOT, NO_SIZE
MPI_Reduce_scatter_block MPI_Ireduce_scatter_block MPI_Reduce_scatter_block_init
    : sendbuf recvbuf recvcount datatype op comm : NO_ROOT, NULL, recvcount, datatype
"""


@dataclass(frozen=True)
class Meaning:
    """Meaning of the calls of one function."""

    parameters: tuple[str, ...]
    """Names of the parameters, by position."""
    before: str = ""
    """C statements before the call; empty for none."""
    after: str = ""


def meanings() -> dict[str, Meaning]:
    """Return the meaning of each function that concerns messages, requests or communicators, by its name."""
    found = {}
    for names, words, before, after in _lines(_TABLE):
        for name in names.split():
            found[name] = Meaning(tuple(words.split()), _statements(before), _statements(after))
    for names, words, what in _lines(_COLLECTIVE):
        parameters, arguments = tuple(words.split()), what.replace("NO_SIZE", _NO_SIZE)
        root = arguments.partition(",")[0]
        for name in names.split():
            if name.startswith("MPI_I"):
                found[name] = Meaning(
                    (*parameters, "request"),
                    f"uint32_t number = collective_begun(comm, {arguments});",
                    "request_made(number, false, comm, *request);",
                )
            elif name.endswith("_init"):
                found[name] = Meaning(
                    (*parameters, "info", "request"), "", f"collective_prepared(comm, {root}, *request);"
                )
            else:
                found[name] = Meaning(parameters, f"collective(comm, {arguments});")
    # Functions with counts beyond 2^31 have names of their own.
    return found | {f"{name}_c": meaning for name, meaning in found.items()}


def _lines(table: str) -> list[list[str]]:
    """Return the fields of each line; an indented line continues the one before."""
    lines = table.replace("\n    ", " ").strip().splitlines()
    return [[field.strip() for field in line.split(" :")] for line in lines if line]


def _statements(text: str) -> str:
    return f"{text.replace('NO_SIZE', _NO_SIZE)};" if text else ""
