"""What MPI's functions mean: which of their arguments say what message, request or communicator it is about.

A line of the table has names of functions (without ``MPI_``), their parameters by position, what to do before
the call, and what to do after it if it succeeded; ``library/messages.h`` has what can be done. Functions that
are not here are recorded as calls, with nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

_NO_SIZE = "NULL, 0, MPI_DATATYPE_NULL"

_TABLE = """
Init : argc argv : before_init() : after_init()
Init_thread : argc argv required provided : before_init() : after_init()

Send Bsend Ssend Rsend : buf count datatype dest tag comm : sent(count, datatype, dest, tag, comm) :
Isend Ibsend Issend Irsend : buf count datatype dest tag comm request
    : uint32_t number = send_begun(count, datatype, dest, tag, comm)
    : request_made(number, false, comm, *request)
Recv : buf count datatype source tag comm status : : received(status, comm)
Irecv : buf count datatype source tag comm request
    : uint32_t number = receive_posted(count, datatype, source, tag, comm)
    : request_made(number, true, comm, *request)
Sendrecv : sendbuf sendcount sendtype dest sendtag recvbuf recvcount recvtype source recvtag comm status
    : sent(sendcount, sendtype, dest, sendtag, comm) : received(status, comm)
Sendrecv_replace : buf count datatype dest sendtag source recvtag comm status
    : sent(count, datatype, dest, sendtag, comm) : received(status, comm)
Isendrecv : sendbuf sendcount sendtype dest sendtag recvbuf recvcount recvtype source recvtag comm request
    : sent(sendcount, sendtype, dest, sendtag, comm);
      uint32_t number = receive_posted(recvcount, recvtype, source, recvtag, comm)
    : request_made(number, true, comm, *request)
Isendrecv_replace : buf count datatype dest sendtag source recvtag comm request
    : sent(count, datatype, dest, sendtag, comm);
      uint32_t number = receive_posted(count, datatype, source, recvtag, comm)
    : request_made(number, true, comm, *request)
Mprobe : source tag comm message status : : matched(*message, comm)
Improbe : source tag comm flag message status : : if (*flag) matched(*message, comm)
Mrecv : buf count datatype message status
    : uint64_t held = HANDLE(*message) : matched_received(held, status)
Imrecv : buf count datatype message request
    : uint64_t held = HANDLE(*message) : matched_receive_begun(held, *request)

Send_init Bsend_init Ssend_init Rsend_init : buf count datatype dest tag comm request
    : : send_prepared(count, datatype, dest, tag, comm, *request)
Recv_init : buf count datatype source tag comm request
    : : receive_prepared(count, datatype, source, tag, comm, *request)
Psend_init : buf partitions count datatype dest tag comm info request
    : : send_prepared((int64_t)partitions * count, datatype, dest, tag, comm, *request)
Precv_init : buf partitions count datatype source tag comm info request
    : : receive_prepared((int64_t)partitions * count, datatype, source, tag, comm, *request)
Start : request : started(HANDLE(*request)) :
Startall : count requests : started_all(&held, count) :
Request_free : request : forgotten(HANDLE(*request)) :

Wait : request status : uint64_t held = HANDLE(*request) : completed(held, status)
Test : request flag status : uint64_t held = HANDLE(*request) : if (*flag) completed(held, status)
Waitall : count requests statuses : : completed_all(&held, count)
Testall : count requests flag statuses : : if (*flag) completed_all(&held, count)
Waitany : count requests index status : : completed_any(&held, *index, status)
Testany : count requests index flag status : : if (*flag) completed_any(&held, *index, status)
Waitsome Testsome : count requests outcount indices statuses
    : : if (*outcount > 0) completed_some(&held, *outcount, indices)

Comm_dup : comm newcomm : collective(comm, NO_ROOT, NO_SIZE) : communicator_made(comm, *newcomm)
Comm_dup_with_info : comm info newcomm
    : collective(comm, NO_ROOT, NO_SIZE) : communicator_made(comm, *newcomm)
Comm_idup : comm newcomm request
    : uint32_t number = collective_begun(comm, NO_ROOT, NO_SIZE) : request_made(number, false, comm, *request)
Comm_idup_with_info : comm info newcomm request
    : uint32_t number = collective_begun(comm, NO_ROOT, NO_SIZE) : request_made(number, false, comm, *request)
Comm_create : comm group newcomm : collective(comm, NO_ROOT, NO_SIZE) : communicator_made(comm, *newcomm)
Comm_split : comm color key newcomm : collective(comm, NO_ROOT, NO_SIZE) : communicator_made(comm, *newcomm)
Comm_split_type : comm split_type key info newcomm
    : collective(comm, NO_ROOT, NO_SIZE) : communicator_made(comm, *newcomm)
Cart_create : comm ndims dims periods reorder newcomm
    : collective(comm, NO_ROOT, NO_SIZE) : communicator_made(comm, *newcomm)
Cart_sub : comm remain_dims newcomm : collective(comm, NO_ROOT, NO_SIZE) : communicator_made(comm, *newcomm)
Graph_create : comm nnodes index edges reorder newcomm
    : collective(comm, NO_ROOT, NO_SIZE) : communicator_made(comm, *newcomm)
Dist_graph_create : comm n sources degrees destinations weights info reorder newcomm
    : collective(comm, NO_ROOT, NO_SIZE) : communicator_made(comm, *newcomm)
Dist_graph_create_adjacent
    : comm indegree sources sourceweights outdegree destinations destweights info reorder newcomm
    : collective(comm, NO_ROOT, NO_SIZE) : communicator_made(comm, *newcomm)
Intercomm_merge : comm high newcomm : collective(comm, NO_ROOT, NO_SIZE) : communicator_made(comm, *newcomm)
Comm_create_group : comm group tag newcomm : : communicator_made_by_group(comm, tag, *newcomm)
Intercomm_create : local_comm local_leader peer_comm remote_leader tag newcomm
    : : communicator_made_between(tag, *newcomm)
Comm_spawn : command argv maxprocs info root comm newcomm errcodes : collective(comm, root, NO_SIZE) :
Comm_spawn_multiple : count commands argvs maxprocs infos root comm newcomm errcodes
    : collective(comm, root, NO_SIZE) :
Session_init : info errhandler session : : session_made(*session)
Session_finalize : session : session_ends(HANDLE(*session)) :
Comm_create_from_group : group stringtag info errhandler newcomm
    : : communicator_made_from_group(stringtag, *newcomm)
Comm_free Comm_disconnect : comm : communicator_gone(HANDLE(*comm)) :

Win_create : base size disp_unit info comm win : collective(comm, NO_ROOT, NO_SIZE) : window_made(comm, *win)
Win_allocate Win_allocate_shared : size disp_unit info comm baseptr win
    : collective(comm, NO_ROOT, NO_SIZE) : window_made(comm, *win)
Win_create_dynamic : info comm win : collective(comm, NO_ROOT, NO_SIZE) : window_made(comm, *win)
Win_free : win : collective_of_window(*win); window_gone(HANDLE(*win)) :
Win_fence : assert win : collective_of_window(win) :
Win_lock : lock_type rank assert win : reached(SYNCHRONISATION, 0, MPI_DATATYPE_NULL, rank, win) :
Win_unlock Win_flush Win_flush_local : rank win
    : reached(SYNCHRONISATION, 0, MPI_DATATYPE_NULL, rank, win) :
Win_lock_all : assert win : reached(SYNCHRONISATION, 0, MPI_DATATYPE_NULL, NO_ROOT, win) :
Win_unlock_all Win_flush_all Win_flush_local_all Win_complete Win_wait : win
    : reached(SYNCHRONISATION, 0, MPI_DATATYPE_NULL, NO_ROOT, win) :
Win_start Win_post : group assert win : reached(SYNCHRONISATION, 0, MPI_DATATYPE_NULL, NO_ROOT, win) :
Put Get : origin_addr origin_count origin_datatype target_rank target_disp target_count target_datatype win
    : reached(ONE_SIDED, origin_count, origin_datatype, target_rank, win) :
Rput Rget
    : origin_addr origin_count origin_datatype target_rank target_disp target_count target_datatype
      win request
    : uint32_t number = reach_begun(origin_count, origin_datatype, target_rank, win)
    : request_made(number, false, MPI_COMM_NULL, *request)
Accumulate
    : origin_addr origin_count origin_datatype target_rank target_disp target_count target_datatype op win
    : reached(ONE_SIDED, origin_count, origin_datatype, target_rank, win) :
Raccumulate
    : origin_addr origin_count origin_datatype target_rank target_disp target_count target_datatype
      op win request
    : uint32_t number = reach_begun(origin_count, origin_datatype, target_rank, win)
    : request_made(number, false, MPI_COMM_NULL, *request)
Get_accumulate
    : origin_addr origin_count origin_datatype result_addr result_count result_datatype
      target_rank target_disp target_count target_datatype op win
    : reached(ONE_SIDED, result_count, result_datatype, target_rank, win) :
Rget_accumulate
    : origin_addr origin_count origin_datatype result_addr result_count result_datatype
      target_rank target_disp target_count target_datatype op win request
    : uint32_t number = reach_begun(result_count, result_datatype, target_rank, win)
    : request_made(number, false, MPI_COMM_NULL, *request)
Fetch_and_op : origin_addr result_addr datatype target_rank target_disp op win
    : reached(ONE_SIDED, 1, datatype, target_rank, win) :
Compare_and_swap : origin_addr compare_addr result_addr datatype target_rank target_disp win
    : reached(ONE_SIDED, 1, datatype, target_rank, win) :
"""

_COLLECTIVE = """
Barrier : comm : NO_ROOT, NO_SIZE
Bcast : buffer count datatype root comm : root, NULL, count, datatype
Gather : sendbuf sendcount sendtype recvbuf recvcount recvtype root comm : root, sendbuf, sendcount, sendtype
Gatherv : sendbuf sendcount sendtype recvbuf recvcounts displs recvtype root comm
    : root, sendbuf, sendcount, sendtype
Scatter : sendbuf sendcount sendtype recvbuf recvcount recvtype root comm : root, recvbuf, recvcount, recvtype
Scatterv : sendbuf sendcounts displs sendtype recvbuf recvcount recvtype root comm
    : root, recvbuf, recvcount, recvtype
Allgather Alltoall Neighbor_allgather Neighbor_alltoall
    : sendbuf sendcount sendtype recvbuf recvcount recvtype comm : NO_ROOT, sendbuf, sendcount, sendtype
Allgatherv Neighbor_allgatherv : sendbuf sendcount sendtype recvbuf recvcounts displs recvtype comm
    : NO_ROOT, sendbuf, sendcount, sendtype
Alltoallv Neighbor_alltoallv : sendbuf sendcounts sdispls sendtype recvbuf recvcounts rdispls recvtype comm
    : NO_ROOT, NO_SIZE
Alltoallw Neighbor_alltoallw : sendbuf sendcounts sdispls sendtypes recvbuf recvcounts rdispls recvtypes comm
    : NO_ROOT, NO_SIZE
Reduce : sendbuf recvbuf count datatype op root comm : root, NULL, count, datatype
Allreduce Scan Exscan : sendbuf recvbuf count datatype op comm : NO_ROOT, NULL, count, datatype
Reduce_scatter : sendbuf recvbuf recvcounts datatype op comm : NO_ROOT, NO_SIZE
Reduce_scatter_block : sendbuf recvbuf recvcount datatype op comm : NO_ROOT, NULL, recvcount, datatype
"""


@dataclass(frozen=True)
class Meaning:
    """Of one function."""

    parameters: tuple[str, ...]
    """Names, by position."""
    before: str = ""
    """C statements; empty for none."""
    after: str = ""


def meanings() -> dict[str, Meaning]:
    """All functions whose calls mean more than that they took time, by full name."""
    found = {}
    for names, words, before, after in _lines(_TABLE):
        for name in names.split():
            found[f"MPI_{name}"] = Meaning(tuple(words.split()), _statements(before), _statements(after))
    for names, words, what in _lines(_COLLECTIVE):
        parameters, arguments = tuple(words.split()), what.replace("NO_SIZE", _NO_SIZE)
        root = arguments.partition(",")[0]
        for name in names.split():
            found[f"MPI_{name}"] = Meaning(parameters, f"collective(comm, {arguments});")
            found[f"MPI_I{name.lower()}"] = Meaning(
                (*parameters, "request"),
                f"uint32_t number = collective_begun(comm, {arguments});",
                "request_made(number, false, comm, *request);",
            )
            found[f"MPI_{name}_init"] = Meaning(
                (*parameters, "info", "request"), "", f"collective_prepared(comm, {root}, *request);"
            )
    # With counts beyond 2^31 functions have a name of their own.
    return found | {f"{name}_c": meaning for name, meaning in found.items()}


def _lines(table: str) -> list[list[str]]:
    """Fields of each line; a line goes on where the next one is indented."""
    lines = table.replace("\n    ", " ").strip().splitlines()
    return [[field.strip() for field in line.split(" :")] for line in lines if line]


def _statements(text: str) -> str:
    return f"{text.replace('NO_SIZE', _NO_SIZE)};" if text else ""
