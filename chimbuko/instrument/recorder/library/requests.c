/* The requests of a process by their handles, in shards that each have a lock. */
#include "requests.h"

#include "communicators.h"

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

/* Slot of the request that a thread has made, or a free one for it; `other` is the slot of the newest request of
 * another thread with the same handle, or SHARD_SLOTS. Several requests may have one handle: MPI reuses it as soon as
 * a request has completed, and the thread that waited for that may not have returned yet. */
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

void keep_request(struct request request)
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

bool take_request(uint64_t handle, bool is_only_looked_at, struct request *request)
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

uint32_t next_number(void) { return atomic_fetch_add_explicit(&request_count, 1, memory_order_relaxed) + 1; }

void forgotten(uint64_t handle)
{
    struct shard *shard = take_shard(handle);
    uint32_t slot = known_slot_in(shard, handle);
    if (shard->slots[slot].handle == handle)
        remove_slot(shard, slot);
    leave_shard(shard);
}

void free_requests(void)
{
    for (int number = 0; number < SHARDS; number++)
        atomic_flag_clear(&shards[number].is_taken);
}
