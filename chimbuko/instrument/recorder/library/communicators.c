/* The communicators and windows of a process, the world ranks of their members, and the begin of MPI. */
#define _GNU_SOURCE
#include "communicators.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "functions.h"
#include "requests.h"

/* --- MPI's own functions, by the names that no tool replaces --- */

/* MPI may have been loaded for one library alone (RTLD_LOCAL), so that others do not find its functions. */
void *find_mpi(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    if (found == NULL && dlopen(MPI_SONAME, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL) != NULL)
        found = dlsym(RTLD_DEFAULT, name);
    return found;
}

const char *const wrapped_mpi = MPI_SONAME;

void *find_next(unsigned number)
{
    const char *name = function_names[number];
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL) {
        char profiling[NAME_BYTES + 1] = "P";
        found = find_mpi(strncat(profiling, name, NAME_BYTES - 1));
    }
    next_functions[number] = found;
    return found;
}

MPI_FUNCTION(Comm_group)
MPI_FUNCTION(Comm_rank)
MPI_FUNCTION(Comm_remote_group)
MPI_FUNCTION(Comm_size)
MPI_FUNCTION(Comm_test_inter)
MPI_FUNCTION(Group_free)
MPI_FUNCTION(Group_size)
MPI_FUNCTION(Group_translate_ranks)

/* --- Known communicators and windows --- */

struct known {
    int32_t *world_ranks; /* by rank; NULL where ranks are world ranks */
    uint32_t size;        /* size of the group that messages go to */
    _Atomic int32_t collectives;
    _Atomic uint32_t children;
};

enum { COMMUNICATOR_SLOTS = 2 * COMMUNICATORS, GONE = 1 };

/* Rows of the process's table by handle, of communicators and of windows; handles of windows are marked by WINDOW. */
static struct slot {
    _Atomic uint64_t handle; /* 0: free; GONE: was used */
    uint16_t row;
} slots[COMMUNICATOR_SLOTS];
static struct known known[COMMUNICATORS]; /* row 0 stands for all unknown communicators */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static MPI_Group world;
static int world_size;
static int world_rank = -1;

#define WINDOW UINT64_C(0x5700000000000000)

/* Row of a handle; 0 where it is not known. */
static uint16_t row_of_handle(uint64_t handle)
{
    for (uint64_t at = mixed(handle, 0), end = at + COMMUNICATOR_SLOTS; at < end; at++) {
        struct slot *slot = &slots[at % COMMUNICATOR_SLOTS];
        uint64_t found = atomic_load_explicit(&slot->handle, memory_order_acquire);
        if (found == handle)
            return slot->row;
        if (found == 0)
            return 0;
    }
    return 0;
}

static void keep_row(uint64_t handle, uint16_t row)
{
    for (uint64_t at = mixed(handle, 0), end = at + COMMUNICATOR_SLOTS; at < end; at++) {
        struct slot *slot = &slots[at % COMMUNICATOR_SLOTS];
        uint64_t found = atomic_load(&slot->handle);
        if (found == 0 || found == GONE || found == handle) {
            slot->row = row;
            atomic_store_explicit(&slot->handle, handle, memory_order_release);
            return;
        }
    }
}

static void forget_row(uint64_t handle)
{
    for (uint64_t at = mixed(handle, 0), end = at + COMMUNICATOR_SLOTS; at < end; at++) {
        struct slot *slot = &slots[at % COMMUNICATOR_SLOTS];
        uint64_t found = atomic_load(&slot->handle);
        if (found == handle)
            atomic_store(&slot->handle, GONE);
        if (found == handle || found == 0)
            return;
    }
}

/* World ranks of a group, and a number computed from them. */
static int32_t *translated(MPI_Group group, int size, uint64_t *number)
{
    int *ranks = malloc(2 * (size_t)(size + 1) * sizeof *ranks), *result = ranks + size;
    if (ranks == NULL)
        return NULL;
    for (int rank = 0; rank < size; rank++)
        ranks[rank] = result[rank] = rank;
    if (world_size > 0)
        mpi_Group_translate_ranks()(group, size, ranks, world, result);
    *number = mixed(*number, (uint64_t)size);
    for (int rank = 0; rank < size; rank++) {
        /* A process that is not in our world keeps its rank in the group. */
        ranks[rank] = result[rank] == MPI_UNDEFINED ? rank : result[rank];
        *number = mixed(*number, (uint64_t)ranks[rank]);
    }
    return ranks;
}

static bool is_world(const int32_t *ranks, int size)
{
    for (int rank = 0; rank < size; rank++)
        if (ranks[rank] != rank)
            return false;
    return true;
}

/* Add a communicator. Its identity is computed from its members, and from its origin, which all members know: its
 * parent, and the number of communicators made from that before. */
static uint16_t take_in(uint64_t handle, MPI_Comm comm, uint64_t origin)
{
    MPI_Group local, remote = MPI_GROUP_NULL;
    int is_inter = 0, size = 0, rank = -1;
    if (process == NULL || mpi_Comm_group()(comm, &local) != MPI_SUCCESS)
        return 0;
    mpi_Comm_rank()(comm, &rank);
    mpi_Comm_test_inter()(comm, &is_inter);
    mpi_Group_size()(local, &size);
    uint64_t of_local = 0, of_remote = 0;
    int32_t *ranks = translated(local, size, &of_local);
    if (is_inter) {
        free(ranks);
        mpi_Comm_remote_group()(comm, &remote);
        mpi_Group_size()(remote, &size);
        ranks = translated(remote, size, &of_remote);
        mpi_Group_free()(&remote);
    }
    mpi_Group_free()(&local);
    if (ranks != NULL && is_world(ranks, size)) {
        free(ranks);
        ranks = NULL;
    }
    pthread_mutex_lock(&lock);
    uint16_t row = row_of_handle(handle);
    /* Both sides of an intercommunicator compute the same. */
    if (row == 0 && (row = new_group(mixed(of_local ^ of_remote, origin) | 1, (uint32_t)size, rank)) != 0) {
        known[row].world_ranks = ranks;
        known[row].size = (uint32_t)size;
        keep_row(handle, row);
    }
    pthread_mutex_unlock(&lock);
    return row;
}

uint16_t row_of(MPI_Comm comm)
{
    uint16_t row = row_of_handle(HANDLE(comm));
    if (LIKELY(row != 0) || comm == MPI_COMM_NULL)
        return row;
    return take_in(HANDLE(comm), comm, 0);
}

int32_t world_rank_of(uint16_t row, int peer)
{
    const struct known *one = &known[row];
    return peer >= 0 && one->world_ranks != NULL && (uint32_t)peer < one->size ? one->world_ranks[peer] : peer;
}

void communicator_made(MPI_Comm parent, MPI_Comm made)
{
    uint16_t row = row_of(parent);
    uint32_t number = atomic_fetch_add(&known[row].children, 1);
    if (process != NULL && made != MPI_COMM_NULL)
        take_in(HANDLE(made), made, mixed(process->communicators[row].identity, number + 1));
}

void communicator_made_by_group(MPI_Comm parent, int tag, MPI_Comm made)
{
    if (process != NULL && made != MPI_COMM_NULL)
        take_in(HANDLE(made), made, mixed(process->communicators[row_of(parent)].identity, ~(uint64_t)tag));
}

void communicator_made_between(int tag, MPI_Comm made)
{
    if (made != MPI_COMM_NULL)
        take_in(HANDLE(made), made, ~(uint64_t)tag);
}

void communicator_gone(uint64_t comm) { forget_row(comm); }

void window_made(MPI_Comm comm, MPI_Win win) { keep_row(HANDLE(win) ^ WINDOW, row_of(comm)); }

void window_gone(uint64_t win) { forget_row(win ^ WINDOW); }

uint16_t row_of_window(MPI_Win win) { return row_of_handle(HANDLE(win) ^ WINDOW); }

int32_t next_collective(uint16_t row)
{
    return atomic_fetch_add_explicit(&known[row].collectives, 1, memory_order_relaxed);
}

/* --- Beginning --- */

void before_init(void) { forget_crashes(); }

void after_init(void)
{
    watch_crashes();
    if (mpi_Comm_size()(MPI_COMM_WORLD, &world_size) != MPI_SUCCESS)
        return;
    mpi_Comm_rank()(MPI_COMM_WORLD, &world_rank);
    mpi_Comm_group()(MPI_COMM_WORLD, &world);
    take_in(HANDLE(MPI_COMM_WORLD), MPI_COMM_WORLD, 0);
    note_world(world_rank, world_size);
}

#if MPI_VERSION >= 4

MPI_FUNCTION(Group_from_session_pset)
MPI_FUNCTION(Group_rank)

static uint64_t session_of_world; /* session that made the group `world`; 0 for MPI_Init */

void session_made(MPI_Session session)
{
    if (world_size > 0 || mpi_Group_from_session_pset()(session, "mpi://WORLD", &world) != MPI_SUCCESS)
        return;
    session_of_world = HANDLE(session);
    mpi_Group_rank()(world, &world_rank);
    mpi_Group_size()(world, &world_size);
    note_world(world_rank, world_size);
}

void session_ends(uint64_t session)
{
    if (session == session_of_world && world_size > 0) {
        mpi_Group_free()(&world);
        world_size = 0;
        session_of_world = 0;
    }
}

void communicator_made_from_group(const char *tag, MPI_Comm made)
{
    uint64_t origin = 1;
    for (; *tag != '\0'; tag++)
        origin = mixed(origin, (uint64_t)*tag);
    if (made != MPI_COMM_NULL)
        take_in(HANDLE(made), made, origin);
}

#endif

/* Forget all communicators in a forked child. MPI must not be used there, but if it is, no lock may block it. */
void forget_mpi(void)
{
    pthread_mutex_init(&lock, NULL);
    memset(known, 0, sizeof known);
    memset((void *)slots, 0, sizeof slots);
    free_requests();
}
