/* Recording of MPI calls besides their beginning and end. The wrappers, which are generated from the table in
 * mpitable.py, call these functions. */
#ifndef CHIMBUKO_MESSAGES_H
#define CHIMBUKO_MESSAGES_H

#include <mpi.h>

#include "objects.h" /* generated: makes MPI's objects weak, as a process may have none of them */
#include "recorder.h"

#define HIDDEN __attribute__((visibility("hidden")))
#define HANDLE(handle) ((uint64_t)(uintptr_t)(handle))

/* Requests that a call waits for or tests, as they were before it, and its statuses. */
enum { FEW = 32, FORTRAN_STATUS_WORDS = sizeof(MPI_Status) / sizeof(MPI_Fint) };
struct waiting {
    uint64_t *handles;
    MPI_Status *statuses, *made;
    MPI_Fint *fortran_statuses, *made_fortran;
    int count;       /* number of requests, in calls from Fortran */
    int first_index; /* 1 in Fortran */
    uint64_t few_handles[FEW];
    MPI_Status few_statuses[FEW];
};

/* The function that a wrapper calls: another tool's, or MPI's own. */
HIDDEN extern void *volatile next_functions[];
HIDDEN void *find_next(unsigned number);
HIDDEN void *find_mpi(const char *name);

HIDDEN void before_init(void);
HIDDEN void after_init(void);

/* Functions of sends and receives; a result is the number of the request, or 0 where there is no message. */
HIDDEN void sent(int64_t count, MPI_Datatype type, int peer, int tag, MPI_Comm comm);
HIDDEN void received(const MPI_Status *status, MPI_Comm comm);
HIDDEN uint32_t send_begun(int64_t count, MPI_Datatype type, int peer, int tag, MPI_Comm comm);
HIDDEN uint32_t receive_posted(int64_t count, MPI_Datatype type, int peer, int tag, MPI_Comm comm);
HIDDEN void request_made(uint32_t number, bool is_receive, MPI_Comm comm, MPI_Request request);
HIDDEN void send_prepared(int64_t count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request request);
HIDDEN void receive_prepared(int64_t count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                             MPI_Request request);
HIDDEN void collective_prepared(MPI_Comm comm, int root, MPI_Request request);
HIDDEN void started(uint64_t request);
HIDDEN void started_all(const struct waiting *waiting, int count);
HIDDEN void forgotten(uint64_t request);
HIDDEN void matched(MPI_Message message, MPI_Comm comm);
HIDDEN void matched_received(uint64_t message, const MPI_Status *status);
HIDDEN void matched_receive_begun(uint64_t message, MPI_Request request);

/* `statuses` is NULL where the program ignores them. */
HIDDEN void hold(struct waiting *waiting, int count, const MPI_Request *requests, MPI_Status *statuses);
HIDDEN void let_go(struct waiting *waiting);
HIDDEN void completed(uint64_t request, const MPI_Status *status);
HIDDEN void completed_all(const struct waiting *waiting, int count);
HIDDEN void completed_some(const struct waiting *waiting, int count, const int *indices);
HIDDEN void completed_any(const struct waiting *waiting, int index, const MPI_Status *status);

/* Operations of all members of a communicator, with a root or without one. The size is computed only where MPI says
 * that count and type are significant: elsewhere they may be anything. */
enum { NO_ROOT = INT32_MIN };
HIDDEN void collective(MPI_Comm comm, int root, const void *buffer, int64_t count, MPI_Datatype type);
HIDDEN uint32_t collective_begun(MPI_Comm comm, int root, const void *buffer, int64_t count, MPI_Datatype type);
HIDDEN void collective_of_window(MPI_Win win);

HIDDEN void communicator_made(MPI_Comm parent, MPI_Comm made);
HIDDEN void communicator_made_by_group(MPI_Comm parent, int tag, MPI_Comm made);
HIDDEN void communicator_made_between(int tag, MPI_Comm made);
HIDDEN void communicator_gone(uint64_t comm);
#if MPI_VERSION >= 4
HIDDEN void session_made(MPI_Session session);
HIDDEN void session_ends(uint64_t session);
HIDDEN void communicator_made_from_group(const char *tag, MPI_Comm made);
#endif
HIDDEN void window_made(MPI_Comm comm, MPI_Win win);
HIDDEN void window_gone(uint64_t win);
HIDDEN void reached(enum Operation what, int64_t count, MPI_Datatype type, int peer, MPI_Win win);
HIDDEN uint32_t reach_begun(int64_t count, MPI_Datatype type, int peer, MPI_Win win);

#endif
