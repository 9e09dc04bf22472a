/* Recording of what a thread does. Nothing here waits, allocates or calls the kernel, except for the first event of
 * a thread, and for the first one after a millisecond. */
#ifndef CHIMBUKO_RECORDER_H
#define CHIMBUKO_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "layout.h"
#include "looks.h"
#include "work.h"

#define EXPORTED __attribute__((visibility("default")))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* State of a thread beside its ring. */
struct thread {
    struct ring *ring;
    struct event *events;
    uint64_t written, read; /* positions as last seen by this thread */
    uint64_t mask;
    uint32_t depth;
    uint32_t skipped; /* open calls that are not recorded, as the outermost of them found no room */
    uintptr_t skipped_frame; /* of the outermost of them */
    Key skipped_key;
    uintptr_t busy_frame;    /* of the function that records */
    uint64_t seen;           /* events written when that began its present event */
    uint32_t before, after;  /* depth before that event, and after it */
    uintptr_t stack_low, stack_bytes; /* the stack on which it runs, as far as that is known; see stacks.c */
    struct stacks *stacks;            /* all that it has run on; NULL while there is one only */
    uint32_t lane;                    /* in which the calls of the present stack are recorded */
    uint32_t suspended;               /* open calls of the other stacks */
    _Atomic uint64_t *skip_count;     /* of the reason for which calls are skipped */
    bool is_lane_unsaid; /* no event since the change of the stack says which lane this is */
    bool is_busy;     /* recording: a signal's handler must not record into a half-written event */
    bool is_off;
    uint32_t callers;    /* open calls that were found on the stack: the outermost ones, see callers.c */
    uintptr_t mpi_frame; /* of the MPI call that it is in, whose calls of MPI are not recorded; 0 for none */
    bool is_ended;
    int64_t counted_ns; /* when its work was last counted; 0 for never */
};

extern __thread struct thread self __attribute__((tls_model("initial-exec"), visibility("hidden")));
extern struct process *process __attribute__((visibility("hidden")));

/* Number that this thread had best have in the trace, as its runtime has it; 0 for any. */
extern __thread uint32_t wanted_number __attribute__((tls_model("initial-exec"), visibility("hidden")));
/* A number that no other thread or stack of the process has: that which is wanted, if it is free. */
__attribute__((visibility("hidden"))) uint32_t next_thread_number(uint32_t wanted);

/* Names of the counters of a call's usage. */
#define USER_TIME "user time of the process (us)"
#define SYSTEM_TIME "system time of the process (us)"
#define THREAD_TIME "CPU time of the thread (us)"
#define PEAK_MEMORY "peak memory of the process (KiB)"
extern bool is_usage_wanted __attribute__((visibility("hidden")));

/* Whether messages are only counted, and nothing is recorded; and the counts, once the world is known. */
extern bool is_only_counting __attribute__((visibility("hidden")));
extern struct counts *counts __attribute__((visibility("hidden")));

/* Marked as seldom called: that takes 1 ns off each call that is left out. */
#define COLD __attribute__((visibility("hidden"), cold))

/* Give this thread a ring; false where it has none, and is not recorded. */
COLD bool begin_thread(void);
COLD void leave_unusual(const struct function *function, Key key, uintptr_t frame, uintptr_t site);
COLD bool come_to_stack(uintptr_t frame, Key called, uintptr_t from);
__attribute__((visibility("hidden"))) bool is_stack_left(uintptr_t frame, uintptr_t now);
__attribute__((visibility("hidden"))) void resume_stack(void);
__attribute__((visibility("hidden"))) void note_own_stack(void);
__attribute__((visibility("hidden"))) void forget_own_stack(void);
__attribute__((visibility("hidden"))) void end_stacks(int64_t now);
__attribute__((visibility("hidden"))) void prepare_stacks(void);
__attribute__((visibility("hidden"))) void forget_stacks(void);
/* Whether a call of a function is open on a stack that its thread has left; no thread ends while looks are held. */
__attribute__((visibility("hidden"))) bool is_suspended(Key key);
COLD void count_dropped(const struct function *function, _Atomic uint64_t *reason);
COLD void leave_gone(uintptr_t frame, Key called, uintptr_t site, uintptr_t from, int64_t now);
COLD bool is_other_call(Key called, uintptr_t site);
COLD bool is_left(uintptr_t now, bool is_entry);
COLD bool look_for_room(uint32_t events);
__attribute__((visibility("hidden"))) Key key_of_name(const char *name);
/* The number of a counter's name, for a thread that records already; 0 where there is no room. */
__attribute__((visibility("hidden"))) unsigned number_of_name(const char *name);
/* A ring for what no thread of this process does: a queue of a GPU, as the description says; NULL for none. */
__attribute__((visibility("hidden"))) struct ring *make_queue_ring(const char *description);
/* The row of a new communicator, or other group of processes; 0 where there is no room. */
__attribute__((visibility("hidden"))) uint16_t new_group(uint64_t identity, uint32_t size, int32_t rank);
__attribute__((visibility("hidden"))) void become_recorded(char **words);
__attribute__((visibility("hidden"))) const char *recorder_folder(void);
__attribute__((visibility("hidden"))) void note_end(enum End how, int code);
__attribute__((visibility("hidden"))) void watch_crashes(void);
__attribute__((visibility("hidden"))) void forget_crashes(void);
__attribute__((visibility("hidden"))) void watch_crashes_of_thread(void);
__attribute__((visibility("hidden"))) void forget_crashes_of_thread(void);
__attribute__((visibility("hidden"))) void note_world(int rank, int size);
__attribute__((visibility("hidden"))) void forget_mpi(void);

void count_work(int64_t now) __attribute__((visibility("hidden"), cold));
__attribute__((visibility("hidden"))) void end_counting(void);

static inline int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Frame of the function that this is part of. */
#define FRAME ((uintptr_t)__builtin_frame_address(0))
#define ANY_FRAME UINTPTR_MAX
/* Place in the code of the program from which that was called. */
#define FROM ((uintptr_t)__builtin_return_address(0))

/* Whether a frame lies in the stack on which this thread runs. */
static inline bool is_in_stack(uintptr_t frame) { return frame - self.stack_low < self.stack_bytes; }

/* The present time at an event, before which the work of the thread is counted where that is due. */
static inline int64_t event_ns(void)
{
    int64_t now = now_ns();
    if (UNLIKELY(now - self.counted_ns >= READ_NS))
        count_work(now);
    return now;
}

/* Whether a function has been left, as by longjmp: its frame was below that of the one that runs now, which lies in
 * the present stack. */
static inline bool is_gone(uintptr_t frame, uintptr_t now) { return now > frame && frame >= self.stack_low; }

/* Whether this is part of an MPI call. One that was left, as by an error handler's exception or longjmp, has no frame
 * above this one; one that waits on another stack is another thread's for this. */
static inline bool is_in_mpi(void)
{
    return self.mpi_frame != 0 && self.mpi_frame > FRAME && is_in_stack(self.mpi_frame) && is_in_stack(FRAME);
}

/* Begin an event after which the depth is another one: a handler that leaves by longjmp may interrupt it anywhere. */
static inline void begin_event(uint32_t after)
{
    self.seen = self.written;
    self.before = self.depth;
    self.after = after;
    atomic_signal_fence(memory_order_seq_cst);
}

/* Whether this thread may record now; if so, release() has to follow. `called` is a function that begins, else 0;
 * `frame` is that of what is recorded, and `from` is where its code has called the recorder. */
static inline bool acquire_for(Key called, uintptr_t frame, uintptr_t from)
{
    if (UNLIKELY(self.is_off))
        return false;
    if (UNLIKELY(self.is_busy) && !is_left(frame, called != 0))
        return false;
    self.busy_frame = frame;
    self.is_busy = true;
    begin_event(self.depth);
    /* A thread that has not begun knows no stack. */
    if (LIKELY(is_in_stack(frame)) || come_to_stack(frame, called, from))
        return true;
    self.is_busy = false;
    return false;
}

static inline bool acquire(void) { return acquire_for(0, FRAME, FROM); }

static inline void release(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    self.is_busy = false;
}

static inline bool has_room(uint32_t events)
{
    return LIKELY(self.written + events - self.read <= self.mask) || look_for_room(events);
}

static inline void publish(void)
{
    atomic_store_explicit(&self.ring->written, ++self.written, memory_order_release);
}

static inline struct event *next_event(enum Kind kind, int64_t now)
{
    struct event *event = &self.events[self.written & self.mask];
    event->time_ns = now;
    event->kind = (uint8_t)kind;
    return event;
}

static inline void write_call(enum Kind kind, Key key, int64_t now, uint32_t request)
{
    struct event *event = next_event(kind, now);
    event->key = key;
    event->tag = (int32_t)self.lane;
    event->request = request;
    publish();
}

/* A region may be opened by a function that ends before it: `frame` is ANY_FRAME then. */
static inline void push_call(Key key, uintptr_t frame, uintptr_t site, int64_t now)
{
    begin_event(self.depth + 1);
    self.ring->stack[self.depth] = key;
    self.ring->entry_ns[self.depth] = now;
    self.ring->frame[self.depth] = frame;
    self.ring->site[self.depth] = site;
    write_call(ENTRY, key, now, 0);
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&self.ring->depth, ++self.depth, memory_order_relaxed);
}

static inline void pop_call(int64_t now, uint32_t request)
{
    begin_event(self.depth - 1);
    write_call(EXIT, self.ring->stack[self.depth - 1], now, request);
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&self.ring->depth, --self.depth, memory_order_relaxed);
}

/* Where a function is called, and, in the highest 16 bits, from where in its code it calls us. */
static inline uintptr_t packed(uintptr_t site, uintptr_t from) { return site == 0 ? 0 : site ^ from << 48; }

/* Whether the innermost open call was left. `called` is the function that begins, and `site` is where it is called. */
static inline bool is_innermost_gone(uintptr_t frame, Key called, uintptr_t site, uintptr_t from)
{
    if (self.depth == 0)
        return false;
    uintptr_t its = self.ring->frame[self.depth - 1];
    return is_gone(its, frame) || (UNLIKELY(its == frame) && is_other_call(called, packed(site, from)));
}

/* Leave out a call, and all that it calls. */
static inline void skip(const struct function *function, Key key, uintptr_t frame, _Atomic uint64_t *reason)
{
    self.skip_count = reason;
    count_dropped(function, reason);
    self.skipped = 1;
    self.skipped_key = key;
    self.skipped_frame = frame;
}

/* Room that functions of the program leave to what can be counted less well: a quarter of the ring. With half of it
 * HPCG's functions, 76,000 events a second, found none when the drain had waited 0.3 s for a core. */
enum { RESERVE = RING_EVENTS / 4 };
static inline uint32_t reserve_of(Key key) { return key & NAMED ? 0 : RESERVE; }

static inline bool has_credit(struct function *function)
{
    return LIKELY(atomic_fetch_sub_explicit(&function->credit, 1, memory_order_relaxed) > 0) ||
           renew_credit(function);
}

static inline void count_left_out(struct function *function)
{
    atomic_store_explicit(&function->was_out, 1, memory_order_relaxed);
    self.ring->left_out[function->row]++;
}

/* A function that is left out costs one look-up, if no call is skipped, of which all would have to be counted. Only
 * what is known of the stack on which it runs may be looked at. */
static inline bool is_passed(const struct function *function, Key key, uintptr_t frame)
{
    return function->key == key && function->state == PASSED && is_in_stack(frame) && self.skipped == 0;
}

/* Whether a call that ends is within the innermost open one, which is not of its function, and was not left by a jump.
 * Where no call is open, earlier ones stand there. */
static inline bool is_within_innermost(Key key, uintptr_t frame)
{
    uint32_t innermost = (self.depth - 1) % DEPTH;
    bool is_left = self.ring->frame[innermost] < frame && self.depth > 0;
    return self.ring->stack[innermost] != key && !is_left;
}

/* Leave out one call, for which there is no room, and not what it calls. */
static inline void pass_over(struct function *function, _Atomic uint64_t *reason)
{
    atomic_store_explicit(&function->was_out, 1, memory_order_relaxed);
    count_dropped(function, reason);
}

/* `site` is where a function is called; 0 for what is no function of the program. */
static inline void enter_as(Key key, uintptr_t site, bool is_region, uintptr_t frame, uintptr_t from)
{
    if (!acquire_for(key, frame, from))
        return;
    struct function *function = NULL;
    if (UNLIKELY(self.skipped > 0 && is_gone(self.skipped_frame, frame)))
        self.skipped = 0;
    if (UNLIKELY(is_innermost_gone(frame, key, site, from)))
        leave_gone(frame, key, site, from, now_ns());
    if (UNLIKELY(self.skipped > 0)) {
        self.skipped++;
        if (!is_only_counting)
            count_dropped(function_of(key), self.skip_count);
    } else if ((function = function_of(key))->state != RECORDED || !has_credit(function)) {
        count_left_out(function);
    } else if (UNLIKELY(self.depth == DEPTH)) {
        skip(function, key, frame, &self.ring->too_deep);
    } else if (UNLIKELY(!has_room(self.depth + 2 + reserve_of(key)))) {
        /* Room is kept for the EXIT of each open call. */
        if (key & NAMED)
            skip(function, key, frame, &self.ring->dropped_calls);
        else
            pass_over(function, &self.ring->dropped_calls);
    } else {
        push_call(key, is_region ? ANY_FRAME : frame, packed(site, from), event_ns());
    }
    release();
}

static inline void enter_at(Key key, uintptr_t site) { enter_as(key, site, false, FRAME, FROM); }
static inline void enter_region(Key key) { enter_as(key, 0, true, FRAME, FROM); }
static inline void enter(Key key) { enter_as(key, 0, false, FRAME, FROM); }

/* Whether an EXIT may be that of an open call of its function. Where calls of a function are left out, a call that it
 * made of itself may end: that was called elsewhere, and its frame lies below. */
static inline bool is_exit_of(uint32_t call, uintptr_t frame, uintptr_t site)
{
    uintptr_t its = self.ring->frame[call];
    return its == ANY_FRAME || ((self.ring->site[call] ^ site) << 16 == 0 && frame >= its);
}

/* The same of the innermost open call. */
static inline bool is_of_innermost(struct function *function, uintptr_t frame, uintptr_t site)
{
    if (LIKELY(is_exit_of(self.depth - 1, frame, site)))
        return true;
    if (!function->was_out)
        function->is_irregular = true;
    return function->is_irregular;
}

static inline void note_runtime(const struct function *function, int64_t runtime_ns)
{
    struct runtimes *runtimes = &self.ring->runtimes[function->row];
    double runtime_us = 1e-3 * (double)runtime_ns;
    runtimes->squares_us2 += runtime_us * runtime_us;
    runtimes->calls++;
}

static inline void leave_as(Key key, uintptr_t site, bool is_poll, uintptr_t frame)
{
    if (!acquire_for(0, frame, 0))
        return;
    /* A function may end with a jump to the EXIT, whose frame is then that of its caller. */
    bool is_own = self.skipped == 1 && key == self.skipped_key;
    if (UNLIKELY(self.skipped > 0 && !is_own && is_gone(self.skipped_frame, frame)))
        self.skipped = 0;
    if (UNLIKELY(self.skipped > 0)) {
        self.skipped--;
        release();
        return;
    }
    struct function *function = function_of(key);
    if (UNLIKELY(is_poll))
        function->is_poll = true;
    if (LIKELY(self.depth > 0 && self.ring->stack[self.depth - 1] == key && is_of_innermost(function, frame, site))) {
        int64_t now = event_ns();
        pop_call(now, 0);
        note_runtime(function, now - self.ring->entry_ns[self.depth]);
    } else {
        leave_unusual(function, key, frame, site);
    }
    release();
}

static inline void leave_at(Key key, uintptr_t site) { leave_as(key, site, false, FRAME); }
static inline void leave(Key key) { leave_as(key, 0, false, FRAME); }

/* Leave a call that asks whether something has come: however long it takes, that tells nothing. */
static inline void leave_poll(Key key) { leave_as(key, 0, true, FRAME); }

/* Record a message, an operation or a counter. `thing` has all but the time and the kind. */
static inline void record(enum Kind kind, struct event thing)
{
    if (!acquire())
        return;
    if (UNLIKELY(!has_room(self.depth + 2))) {
        atomic_fetch_add_explicit(&self.ring->dropped_rows, 1, memory_order_relaxed);
    } else {
        thing.time_ns = now_ns();
        if (UNLIKELY(self.is_lane_unsaid)) {
            write_call(LANE, 0, thing.time_ns, 0);
            self.is_lane_unsaid = false;
        }
        thing.kind = (uint8_t)kind;
        self.events[self.written & self.mask] = thing;
        publish();
    }
    release();
}

#endif
