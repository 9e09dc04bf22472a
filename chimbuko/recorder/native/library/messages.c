/* Messages, requests, communicators and windows, as far as they have to be known to say what is recorded. */
#define _GNU_SOURCE
#include "messages.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "functions.h"

/* --- MPI's own functions, by the names that no tool stands before --- */

/* MPI may have been loaded for one library alone (RTLD_LOCAL), where its functions are found by nobody else. */
void *find_mpi(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    if (found == NULL && dlopen(MPI_SONAME, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL) != NULL)
        found = dlsym(RTLD_DEFAULT, name);
    return found;
}

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

#define MPI_FUNCTION(name)                                                                                   \
    static __typeof__(&MPI_##name) mpi_##name(void)                                                          \
    {                                                                                                        \
        static void *volatile found;                                                                         \
        if (UNLIKELY(found == NULL))                                                                         \
            found = find_mpi("PMPI_" #name);                                                                 \
        return (__typeof__(&MPI_##name))found;                                                               \
    }

MPI_FUNCTION(Comm_group)
MPI_FUNCTION(Comm_rank)
MPI_FUNCTION(Comm_remote_group)
MPI_FUNCTION(Comm_size)
MPI_FUNCTION(Comm_test_inter)
MPI_FUNCTION(Get_count)
MPI_FUNCTION(Group_free)
MPI_FUNCTION(Group_size)
MPI_FUNCTION(Group_translate_ranks)
MPI_FUNCTION(Test_cancelled)
MPI_FUNCTION(Type_size)

static int64_t bytes_of(int64_t count, MPI_Datatype type)
{
    int size = 0;
    if (type == MPI_DATATYPE_NULL || mpi_Type_size()(type, &size) != MPI_SUCCESS || size < 0)
        return 0;
    return count * size;
}

/* --- Communicators --- */

struct known {
    int32_t *world_ranks; /* NULL where they are the ranks themselves */
    uint32_t size;        /* of the group that messages go to */
    _Atomic int32_t collectives;
    _Atomic uint32_t children;
};

enum { COMMUNICATOR_SLOTS = 2 * COMMUNICATORS, GONE = 1 };

/* By handle; rows of a process's table. Communicators and windows: their handles differ by WINDOW. */
static struct slot {
    _Atomic uint64_t handle; /* 0: free; GONE: was used */
    uint16_t row;
} slots[COMMUNICATOR_SLOTS];
static struct known known[COMMUNICATORS]; /* row 0 stands for all that are not known */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static MPI_Group world;
static int world_size;
static int world_rank = -1;

#define WINDOW UINT64_C(0x5700000000000000)
#define MESSAGE UINT64_C(0x4d00000000000000)

static uint64_t mixed(uint64_t value, uint64_t with)
{
    value = (value ^ with) * UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    return value ^ (value >> 32);
}

/* 0 where it is not known. */
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

/* World ranks of a group, and a number that follows from them. */
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
        /* Who is in no world of ours has at least a rank where it is. */
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

/* Take in a communicator. Its identity follows from its members, and from what they have in common to say of it:
 * from where it comes, and which one from there it is. */
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
    uint32_t count = atomic_load(&process->communicator_count);
    if (row == 0 && count < COMMUNICATORS - 1) {
        row = (uint16_t)(count + 1);
        known[row].world_ranks = ranks;
        known[row].size = (uint32_t)size;
        /* Both sides of one between two groups come to the same. */
        process->communicators[row].identity = mixed(of_local ^ of_remote, origin) | 1;
        process->communicators[row].size = (uint32_t)size;
        process->communicators[row].rank = rank;
        atomic_store(&process->communicator_count, count + 1);
        keep_row(handle, row);
    }
    pthread_mutex_unlock(&lock);
    return row;
}

static uint16_t row_of(MPI_Comm comm)
{
    uint16_t row = row_of_handle(HANDLE(comm));
    if (LIKELY(row != 0) || comm == MPI_COMM_NULL)
        return row;
    return take_in(HANDLE(comm), comm, 0);
}

static int32_t world_rank_of(uint16_t row, int peer)
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

/* --- Requests --- */

struct request {
    uint64_t handle; /* 0 for none */
    int64_t bytes;
    int32_t peer;
    int32_t tag;
    uint32_t number;
    int32_t thread; /* that made it */
    uint16_t communicator;
    uint8_t is_receive, is_kept, is_collective; /* kept: persistent */
};

enum { SHARDS = 64, SHARD_SLOTS = 512 };

static struct shard {
    atomic_flag is_taken;
    uint32_t count;
    struct request slots[SHARD_SLOTS];
} shards[SHARDS];
static _Atomic uint32_t request_count;

static struct shard *take_shard(uint64_t handle)
{
    struct shard *shard = &shards[mixed(handle, 1) % SHARDS];
    while (atomic_flag_test_and_set_explicit(&shard->is_taken, memory_order_acquire))
        ;
    return shard;
}

static void leave_shard(struct shard *shard) { atomic_flag_clear_explicit(&shard->is_taken, memory_order_release); }

/* Where the request is that a thread has made, or may be put; `other` is the newest one of that handle of another
 * thread, or SHARD_SLOTS. Of one handle there may be several: MPI gives it to a further request as soon as one has
 * completed, and the thread that waited for that may not have come back yet. */
static uint32_t slot_in(const struct shard *shard, uint64_t handle, int32_t thread, uint32_t *other)
{
    uint32_t slot = (uint32_t)(mixed(handle, 2) % SHARD_SLOTS);
    *other = SHARD_SLOTS;
    for (; shard->slots[slot].handle != 0; slot = (slot + 1) % SHARD_SLOTS) {
        if (shard->slots[slot].handle != handle)
            continue;
        if (LIKELY(shard->slots[slot].thread == thread))
            break;
        if (*other == SHARD_SLOTS || shard->slots[slot].number > shard->slots[*other].number)
            *other = slot;
    }
    return slot;
}

static uint32_t known_slot_in(const struct shard *shard, uint64_t handle)
{
    uint32_t other, own = slot_in(shard, handle, self.ring == NULL ? 0 : self.ring->thread, &other);
    return shard->slots[own].handle == 0 && other != SHARD_SLOTS ? other : own;
}

static void keep_request(struct request request)
{
    struct shard *shard = take_shard(request.handle);
    uint32_t other, slot = slot_in(shard, request.handle, request.thread, &other);
    if (shard->slots[slot].handle == request.handle) {
        shard->slots[slot] = request;
    } else if (shard->count < SHARD_SLOTS - 1) {
        shard->slots[slot] = request;
        shard->count++;
    } else if (process != NULL) {
        atomic_fetch_add(&process->lost_requests, 1);
    }
    leave_shard(shard);
}

static void remove_slot(struct shard *shard, uint32_t slot)
{
    shard->count--;
    for (uint32_t next = (slot + 1) % SHARD_SLOTS; shard->slots[next].handle != 0; next = (next + 1) % SHARD_SLOTS) {
        uint32_t home = (uint32_t)(mixed(shard->slots[next].handle, 2) % SHARD_SLOTS);
        if ((next - home + SHARD_SLOTS) % SHARD_SLOTS >= (next - slot + SHARD_SLOTS) % SHARD_SLOTS) {
            shard->slots[slot] = shard->slots[next];
            slot = next;
        }
    }
    shard->slots[slot].handle = 0;
}

/* What is known of a request; it is forgotten unless it is persistent, or `is_only_looked_at`. */
static bool take_request(uint64_t handle, bool is_only_looked_at, struct request *request)
{
    if (handle == HANDLE(MPI_REQUEST_NULL))
        return false;
    struct shard *shard = take_shard(handle);
    uint32_t slot = known_slot_in(shard, handle);
    bool is_known = shard->slots[slot].handle == handle;
    if (is_known) {
        *request = shard->slots[slot];
        if (!is_only_looked_at && !request->is_kept)
            remove_slot(shard, slot);
    }
    leave_shard(shard);
    return is_known;
}

static uint32_t next_number(void) { return atomic_fetch_add_explicit(&request_count, 1, memory_order_relaxed) + 1; }

void forgotten(uint64_t handle)
{
    struct shard *shard = take_shard(handle);
    uint32_t slot = known_slot_in(shard, handle);
    if (shard->slots[slot].handle == handle)
        remove_slot(shard, slot);
    leave_shard(shard);
}

/* --- Messages --- */

static void count_message(enum Kind kind, const struct request *message)
{
    if (counts == NULL || kind == OPERATION)
        return;
    if (message->peer < 0 || (uint32_t)message->peer >= counts->world_size) {
        atomic_fetch_add_explicit(&counts->left_out, 1, memory_order_relaxed);
        return;
    }
    struct traffic *partner = &counts->partners[message->peer];
    bool is_sent = kind == SEND;
    atomic_fetch_add_explicit(is_sent ? &partner->sent_count : &partner->received_count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(is_sent ? &partner->sent_bytes : &partner->received_bytes, (uint64_t)message->bytes,
                              memory_order_relaxed);
}

static void record_message(enum Kind kind, const struct request *message, enum Operation operation)
{
    if (UNLIKELY(is_only_counting)) {
        count_message(kind, message);
        return;
    }
    record(kind, (struct event){.operation = (uint8_t)operation,
                                .communicator = message->communicator,
                                .peer = message->peer,
                                .bytes = message->bytes,
                                .tag = message->tag,
                                .request = message->number});
}

static struct request message_of(int64_t count, MPI_Datatype type, int peer, int tag, MPI_Comm comm)
{
    uint16_t row = row_of(comm);
    return (struct request){
        .bytes = bytes_of(count, type), .peer = world_rank_of(row, peer), .tag = tag, .communicator = row};
}

void sent(int64_t count, MPI_Datatype type, int peer, int tag, MPI_Comm comm)
{
    if (self.ring == NULL || peer < 0)
        return;
    struct request message = message_of(count, type, peer, tag, comm);
    record_message(SEND, &message, 0);
}

static void record_receive(struct request *message, const MPI_Status *status)
{
    int count = 0, is_cancelled = 0;
    if (status->MPI_SOURCE < 0)
        return;
    mpi_Test_cancelled()(status, &is_cancelled);
    if (is_cancelled)
        return;
    mpi_Get_count()(status, MPI_BYTE, &count);
    message->peer = world_rank_of(message->communicator, status->MPI_SOURCE);
    message->tag = status->MPI_TAG;
    message->bytes = count == MPI_UNDEFINED ? 0 : count;
    record_message(RECEIVE, message, 0);
}

void received(const MPI_Status *status, MPI_Comm comm)
{
    if (self.ring == NULL)
        return;
    struct request message = {.communicator = row_of(comm)};
    record_receive(&message, status);
}

uint32_t send_begun(int64_t count, MPI_Datatype type, int peer, int tag, MPI_Comm comm)
{
    if (self.ring == NULL || peer < 0)
        return 0;
    struct request message = message_of(count, type, peer, tag, comm);
    message.number = next_number();
    record_message(SEND, &message, 0);
    return message.number;
}

uint32_t receive_posted(int64_t count, MPI_Datatype type, int peer, int tag, MPI_Comm comm)
{
    if (self.ring == NULL || peer == MPI_PROC_NULL)
        return 0;
    struct request message = message_of(count, type, peer < 0 ? -1 : peer, tag < 0 ? -1 : tag, comm);
    message.number = next_number();
    record_message(OPERATION, &message, RECEIVE_POSTED);
    return message.number;
}

void request_made(uint32_t number, bool is_receive, MPI_Comm comm, MPI_Request request)
{
    if (number != 0)
        keep_request((struct request){.handle = HANDLE(request),
                                      .number = number,
                                      .thread = self.ring->thread,
                                      .communicator = row_of(comm),
                                      .is_receive = is_receive});
}

static void prepared(struct request message, MPI_Request request)
{
    message.handle = HANDLE(request);
    message.thread = self.ring->thread;
    message.is_kept = 1;
    keep_request(message);
}

void send_prepared(int64_t count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request request)
{
    if (self.ring != NULL && peer >= 0)
        prepared(message_of(count, type, peer, tag, comm), request);
}

void receive_prepared(int64_t count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request request)
{
    if (self.ring == NULL || peer == MPI_PROC_NULL)
        return;
    struct request message = message_of(count, type, peer < 0 ? -1 : peer, tag < 0 ? -1 : tag, comm);
    message.is_receive = 1;
    prepared(message, request);
}

void collective_prepared(MPI_Comm comm, int root, MPI_Request request)
{
    if (self.ring == NULL)
        return;
    uint16_t row = row_of(comm);
    prepared((struct request){.peer = root < 0 ? -1 : world_rank_of(row, root),
                              .communicator = row,
                              .is_collective = 1},
             request);
}

void started(uint64_t handle)
{
    struct request message;
    if (self.ring == NULL || !take_request(handle, true, &message) || !message.is_kept)
        return;
    message.number = next_number();
    if (message.is_collective) {
        message.tag = atomic_fetch_add(&known[message.communicator].collectives, 1);
        record_message(OPERATION, &message, COLLECTIVE);
    } else if (message.is_receive) {
        record_message(OPERATION, &message, RECEIVE_POSTED);
    } else {
        record_message(SEND, &message, 0);
    }
    keep_request(message);
}

void started_all(const struct waiting *waiting, int count)
{
    for (int number = 0; waiting->handles != NULL && number < count; number++)
        started(waiting->handles[number]);
}

/* Between the look at a message and its receipt its communicator would be forgotten. */
void matched(MPI_Message message, MPI_Comm comm)
{
    if (self.ring != NULL && message != MPI_MESSAGE_NULL && message != MPI_MESSAGE_NO_PROC)
        keep_request((struct request){.handle = HANDLE(message) ^ MESSAGE,
                                      .thread = self.ring->thread,
                                      .communicator = row_of(comm),
                                      .is_receive = 1,
                                      .peer = -1,
                                      .tag = -1});
}

void matched_received(uint64_t message, const MPI_Status *status)
{
    struct request found;
    if (self.ring != NULL && take_request(message ^ MESSAGE, false, &found))
        record_receive(&found, status);
}

void matched_receive_begun(uint64_t message, MPI_Request request)
{
    struct request found;
    if (self.ring == NULL || !take_request(message ^ MESSAGE, false, &found))
        return;
    found.handle = HANDLE(request);
    found.thread = self.ring->thread;
    found.number = next_number();
    record_message(OPERATION, &found, RECEIVE_POSTED);
    keep_request(found);
}

void hold(struct waiting *waiting, int count, const MPI_Request *requests, MPI_Status *statuses)
{
    size_t room = count > 0 ? (size_t)count : 1;
    bool are_few = room <= FEW;
    waiting->made = NULL;
    waiting->made_fortran = NULL;
    waiting->first_index = 0;
    waiting->handles = are_few ? waiting->few_handles : malloc(room * sizeof *waiting->handles);
    if (statuses != NULL)
        waiting->statuses = statuses;
    else
        waiting->statuses = are_few ? waiting->few_statuses : (waiting->made = malloc(room * sizeof *waiting->made));
    for (int number = 0; waiting->handles != NULL && number < count; number++)
        waiting->handles[number] = HANDLE(requests[number]);
}

void let_go(struct waiting *waiting)
{
    if (waiting->handles != waiting->few_handles)
        free(waiting->handles);
    free(waiting->made);
    free(waiting->made_fortran);
}

void completed(uint64_t handle, const MPI_Status *status)
{
    struct request message;
    if (self.ring == NULL || !take_request(handle, false, &message) || message.number == 0)
        return;
    if (message.is_receive)
        record_receive(&message, status);
    else
        record_message(OPERATION, &message, COMPLETED);
    if (message.is_kept) {
        message.number = 0;
        keep_request(message);
    }
}

void completed_all(const struct waiting *waiting, int count)
{
    for (int number = 0; waiting->handles != NULL && waiting->statuses != NULL && number < count; number++)
        completed(waiting->handles[number], &waiting->statuses[number]);
}

void completed_some(const struct waiting *waiting, int count, const int *indices)
{
    for (int number = 0; waiting->handles != NULL && waiting->statuses != NULL && number < count; number++)
        completed(waiting->handles[indices[number] - waiting->first_index], &waiting->statuses[number]);
}

void completed_any(const struct waiting *waiting, int index, const MPI_Status *status)
{
    if (index != MPI_UNDEFINED && waiting->handles != NULL)
        completed(waiting->handles[index], status);
}

/* --- Collective and one-sided operations --- */

static struct request collective_of(MPI_Comm comm, int root, const void *buffer, int64_t count, MPI_Datatype type)
{
    uint16_t row = row_of(comm);
    bool has_size = count > 0 && buffer != MPI_IN_PLACE && root != MPI_PROC_NULL;
    return (struct request){.bytes = has_size ? bytes_of(count, type) : 0,
                            .peer = root < 0 ? -1 : world_rank_of(row, root),
                            .tag = atomic_fetch_add_explicit(&known[row].collectives, 1, memory_order_relaxed),
                            .communicator = row};
}

void collective(MPI_Comm comm, int root, const void *buffer, int64_t count, MPI_Datatype type)
{
    if (self.ring == NULL || comm == MPI_COMM_NULL)
        return;
    struct request operation = collective_of(comm, root, buffer, count, type);
    record_message(OPERATION, &operation, COLLECTIVE);
}

uint32_t collective_begun(MPI_Comm comm, int root, const void *buffer, int64_t count, MPI_Datatype type)
{
    if (self.ring == NULL || comm == MPI_COMM_NULL)
        return 0;
    struct request operation = collective_of(comm, root, buffer, count, type);
    operation.number = next_number();
    record_message(OPERATION, &operation, COLLECTIVE);
    return operation.number;
}

static uint16_t row_of_window(MPI_Win win) { return row_of_handle(HANDLE(win) ^ WINDOW); }

void collective_of_window(MPI_Win win)
{
    if (self.ring == NULL)
        return;
    uint16_t row = row_of_window(win);
    struct request operation = {
        .peer = -1, .tag = atomic_fetch_add(&known[row].collectives, 1), .communicator = row};
    record_message(OPERATION, &operation, COLLECTIVE);
}

static struct request reach_of(int64_t count, MPI_Datatype type, int peer, MPI_Win win)
{
    uint16_t row = row_of_window(win);
    return (struct request){.bytes = count > 0 ? bytes_of(count, type) : 0,
                            .peer = peer < 0 ? -1 : world_rank_of(row, peer),
                            .communicator = row};
}

void reached(enum Operation what, int64_t count, MPI_Datatype type, int peer, MPI_Win win)
{
    if (self.ring == NULL || peer == MPI_PROC_NULL)
        return;
    struct request operation = reach_of(count, type, peer, win);
    record_message(OPERATION, &operation, what);
}

uint32_t reach_begun(int64_t count, MPI_Datatype type, int peer, MPI_Win win)
{
    if (self.ring == NULL || peer == MPI_PROC_NULL)
        return 0;
    struct request operation = reach_of(count, type, peer, win);
    operation.number = next_number();
    record_message(OPERATION, &operation, ONE_SIDED);
    return operation.number;
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

static uint64_t session_of_world; /* whose group `world` is; 0 where MPI_Init has made it */

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

/* In a forked child. MPI is not to be used there; but what it does use is not to be waited for. */
void forget_mpi(void)
{
    pthread_mutex_init(&lock, NULL);
    memset(known, 0, sizeof known);
    memset((void *)slots, 0, sizeof slots);
    for (int number = 0; number < SHARDS; number++)
        atomic_flag_clear(&shards[number].is_taken);
}
