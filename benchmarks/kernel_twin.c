/* The loop of the analysis as one would write it in C: what benchmarks/kernel.py compares with.

   Validates the rows of one step, rebuilds the call stacks of all threads across steps, attaches messages
   and counter values to calls, and updates the moments of exclusive and inclusive runtimes. The table of
   calls that it leaves is equal to that of chimbuko.ad.kernels.stack, row for row. It checks for the same
   damage, but gives up where it finds any: the traces of the benchmark hold none. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NONE (-1)
#define NEVER UINT64_MAX
#define MAX_TIME_US (UINT64_C(1) << 53)
enum { FIRST = 1, UNCERTAIN = 2 };
enum { DONE = 0, DAMAGED = 1 };

typedef struct { uint64_t program, rank, thread, type, timer, time; } Event;
typedef struct { uint64_t program, rank, thread, type, tag, partner, bytes, time; } Comm;
typedef struct { uint64_t program, rank, thread, counter, value, time; } Counter;

typedef struct {
    uint64_t entry, exit, child_us;
    int32_t function, parent, depth, children, messages, step, row;
    int32_t path; /* this and the next are not followed here */
    int64_t spent_us;
    int16_t thread;
    uint8_t doubts;
    float at_times_us; /* of callees that are left out: there are none here */
} Call;

typedef struct { int32_t next, call; } Point;
typedef struct { double n, mean, m2, m3, m4, least, most; } Moments;
typedef struct { Moments exclusive, inclusive; } Profile;

typedef struct {
    uint64_t last_time, point_time, tie_time;
    int32_t top, message, value, tie_call, tie_mpi;
} Thread;

typedef struct {
    Call *calls;
    Point *messages, *values;
    Thread *threads;
    Profile *profiles;
    uint8_t *seen; /* [threads][timers] */
    const uint8_t *is_mpi, *is_named;
    uint64_t rank, thread_count, timers;
    int64_t count, completed;
} State;

static void add_value(Moments *m, double x)
{
    double before = m->n, n = before + 1.0;
    double delta = x - m->mean, delta_n = delta / n, delta_n2 = delta_n * delta_n;
    double term = delta * delta_n * before;
    m->n = n;
    m->mean += delta_n;
    m->m4 += term * delta_n2 * (n * n - 3.0 * n + 3.0) + 6.0 * delta_n2 * m->m2 - 4.0 * delta_n * m->m3;
    m->m3 += term * delta_n * (n - 2.0) - 3.0 * delta_n * m->m2;
    m->m2 += term;
    if (x < m->least) m->least = x;
    if (x > m->most) m->most = x;
}

static int is_absurd(uint64_t time) { return time == 0 || time >= MAX_TIME_US; }

static int chain_messages(State *s, const Comm *rows, int64_t count)
{
    for (int64_t i = count - 1; i >= 0; i--) {
        const Comm *row = &rows[i];
        if (row->program != 0 || row->rank != s->rank || row->thread >= s->thread_count || is_absurd(row->time))
            return DAMAGED;
        Thread *thread = &s->threads[row->thread];
        s->messages[i] = (Point){thread->message, NONE};
        thread->message = (int32_t)i;
    }
    return DONE;
}

static int chain_values(State *s, const Counter *rows, int64_t count)
{
    for (int64_t i = count - 1; i >= 0; i--) {
        const Counter *row = &rows[i];
        if (row->program != 0 || row->rank != s->rank || row->thread >= s->thread_count || is_absurd(row->time))
            return DAMAGED;
        Thread *thread = &s->threads[row->thread];
        s->values[i] = (Point){thread->value, NONE};
        thread->value = (int32_t)i;
    }
    return DONE;
}

static void attach_until(State *s, Thread *thread, const Comm *comms, const Counter *counters, uint64_t time)
{
    int32_t at = thread->message;
    while (at != NONE && comms[at].time < time) {
        int32_t call = thread->top;
        if (comms[at].time == thread->tie_time)
            call = thread->tie_mpi != NONE ? thread->tie_mpi : thread->tie_call;
        s->messages[at].call = call;
        if (call != NONE) s->calls[call].messages++;
        at = s->messages[at].next;
    }
    thread->message = at;
    uint64_t message_time = at != NONE ? comms[at].time : NEVER;
    at = thread->value;
    while (at != NONE && counters[at].time < time) {
        s->values[at].call = counters[at].time == thread->tie_time ? thread->tie_call : thread->top;
        at = s->values[at].next;
    }
    thread->value = at;
    uint64_t value_time = at != NONE ? counters[at].time : NEVER;
    thread->point_time = message_time < value_time ? message_time : value_time;
}

static int is_mpi_call(const State *s, int32_t call)
{
    return call != NONE && s->is_mpi[s->calls[call].function];
}

static int by_number(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static int32_t position(const int32_t *sorted, int32_t count, int32_t value)
{
    return (int32_t)((const int32_t *)bsearch(&value, sorted, (size_t)count, sizeof value, by_number) - sorted);
}

/* Move the calls that are still open to the front of the table. */
static void carry_open(State *s)
{
    int32_t kept = 0;
    for (uint64_t t = 0; t < s->thread_count; t++)
        for (int32_t call = s->threads[t].top; call != NONE; call = s->calls[call].parent) kept++;
    int32_t *open = malloc(sizeof *open * (size_t)(kept + 1));
    kept = 0;
    for (uint64_t t = 0; t < s->thread_count; t++)
        for (int32_t call = s->threads[t].top; call != NONE; call = s->calls[call].parent) open[kept++] = call;
    qsort(open, (size_t)kept, sizeof *open, by_number);
    for (int32_t to = 0; to < kept; to++) {
        Call *call = &s->calls[to];
        *call = s->calls[open[to]];
        if (call->parent != NONE) call->parent = position(open, kept, call->parent);
    }
    for (uint64_t t = 0; t < s->thread_count; t++) {
        Thread *thread = &s->threads[t];
        if (thread->top != NONE) thread->top = position(open, kept, thread->top);
        thread->message = thread->value = NONE;
        thread->tie_time = 0;
    }
    free(open);
    s->count = kept;
}

/* Analyse one step. Returns DAMAGED where a row is not as it should be. */
int analyse_step(State *s, const Event *events, int64_t event_count, const Comm *comms, int64_t comm_count,
                 const Counter *counters, int64_t counter_count, int32_t step)
{
    carry_open(s);
    if (chain_messages(s, comms, comm_count) || chain_values(s, counters, counter_count)) return DAMAGED;
    for (uint64_t t = 0; t < s->thread_count; t++) attach_until(s, &s->threads[t], comms, counters, 0);
    Call *calls = s->calls;
    int32_t count = (int32_t)s->count;
    int64_t completed = 0;
    for (int64_t i = 0; i < event_count; i++) {
        const Event *event = &events[i];
        uint64_t time = event->time, timer = event->timer;
        if (event->program != 0 || event->rank != s->rank || event->type > 1 || event->thread >= s->thread_count ||
            timer >= s->timers || !s->is_named[timer] || is_absurd(time))
            return DAMAGED;
        Thread *thread = &s->threads[event->thread];
        if (time < thread->last_time) return DAMAGED;
        thread->last_time = time;
        int is_suspect = i + 1 < event_count && event[1].time < time && event[1].thread == event->thread;
        int32_t top = thread->top;
        int is_tied = 0;
        if (time >= thread->point_time) {
            attach_until(s, thread, comms, counters, time);
            is_tied = thread->point_time == time;
            if (is_tied && thread->tie_time != time) {
                thread->tie_time = time;
                thread->tie_call = event->type ? top : NONE;
                thread->tie_mpi = is_mpi_call(s, top) ? top : NONE;
            }
        }
        if (event->type == 0) {
            uint8_t *seen = &s->seen[event->thread * s->timers + timer];
            calls[count] = (Call){
                .entry = time,
                .function = (int32_t)timer,
                .thread = (int32_t)event->thread,
                .parent = top,
                .depth = top != NONE ? calls[top].depth + 1 : 0,
                .step = step,
                .row = (int32_t)i,
                .doubts = (uint8_t)((*seen ? 0 : FIRST) | (is_suspect ? UNCERTAIN : 0)),
            };
            *seen = 1;
            thread->top = count++;
        } else {
            if (top == NONE || calls[top].function != (int32_t)timer) return DAMAGED;
            Call *call = &calls[top];
            uint64_t inclusive_us = time - call->entry;
            if (call->child_us > inclusive_us) return DAMAGED;
            if (is_suspect) call->doubts |= UNCERTAIN;
            call->exit = time;
            thread->top = call->parent;
            if (call->parent != NONE) {
                Call *parent = &calls[call->parent];
                parent->child_us += inclusive_us;
                parent->children++;
                if (is_suspect) parent->doubts |= UNCERTAIN;
            }
            completed++;
            if (!call->doubts) {
                Profile *profile = &s->profiles[timer];
                add_value(&profile->exclusive, (double)(inclusive_us - call->child_us));
                add_value(&profile->inclusive, (double)inclusive_us);
            }
        }
        if (is_tied) {
            if (thread->tie_call == NONE) thread->tie_call = thread->top;
            if (thread->tie_mpi == NONE && is_mpi_call(s, thread->top)) thread->tie_mpi = thread->top;
        }
    }
    for (uint64_t t = 0; t < s->thread_count; t++) attach_until(s, &s->threads[t], comms, counters, MAX_TIME_US);
    s->count = count;
    s->completed = completed;
    return DONE;
}
