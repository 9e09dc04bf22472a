/* Recording of messages, and of collective and one-sided operations. */
#include "messages.h"

#include <stdlib.h>

#include "communicators.h"
#include "requests.h"

MPI_FUNCTION(Get_count)
MPI_FUNCTION(Test_cancelled)
MPI_FUNCTION(Type_size)

static int64_t bytes_of(int64_t count, MPI_Datatype type)
{
    int size = 0;
    if (type == MPI_DATATYPE_NULL || mpi_Type_size()(type, &size) != MPI_SUCCESS || size < 0)
        return 0;
    return count * size;
}

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
        message.tag = next_collective(message.communicator);
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

/* Keep the communicator of a matched message (MPI_Mprobe) until the message is received. */
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
                            .tag = next_collective(row),
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

void collective_of_window(MPI_Win win)
{
    if (self.ring == NULL)
        return;
    uint16_t row = row_of_window(win);
    struct request operation = {.peer = -1, .tag = next_collective(row), .communicator = row};
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
