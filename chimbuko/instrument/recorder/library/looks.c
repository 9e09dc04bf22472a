/* A thread of our own looks ten times a second at what the others have recorded, and decides by budget.c which
 * functions are recorded until its next look. Between two it disarms what is called too often to be counted. It sleeps
 * while all that is called can be recorded. */
#define _GNU_SOURCE
#include "looks.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "binaries.h"
#include "budget.h"
#include "callers.h"
#include "callsites.h"
#include "entries.h"
#include "node.h"
#include "recorder.h"
#include "sleds.h"

_Static_assert(FUNCTIONS == (int)MOST_FUNCTIONS, "each function has an estimate");

#define OVERHEAD_VARIABLE "CHIMBUKO_OVERHEAD"
#define USUAL_OVERHEAD 0.02
#define SMOOTHING 0.25
#define LEAST_SHARE 0.1 /* so that of threads which mostly wait for messages enough is recorded */
#define BUSY_SHARE 0.7 /* of a core: threads with less wait for it, or for each other */
#define SAMPLE_NS INT64_C(2000000) /* for which a call site is armed to take a sample, or noted */
#define FLOOD_NS INT64_C(500000)   /* for which calls of what was just left out are counted: noted, they cost more */
#define MANY_CALLS_PER_S 1e5 /* of all functions that are left out: to count them takes 0.1 % of the time */

enum {
    CREDIT = 64,      /* calls that a function takes at a time */
    FIRST_CREDIT = 16,
    BURST_LOOKS = 2,  /* whose calls may come at once, where none were looked at before: at 2 % a third of a ring */
    UNSPENT_LOOKS = 2, /* whose calls may come until the second look: another third, as it may not be empty yet */
    QUIET_LOOKS = 10, /* until the thread sleeps */
    MOST_NOTINGS = 8  /* of a function's call sites, without any that could be disarmed */
};

struct function functions[FUNCTION_SLOTS];
bool is_noting;

/* Row 0 is for functions that come when all others are taken. */
static struct function others;
static struct function *_Atomic by_row[FUNCTIONS] = {&others};
static _Atomic uint32_t row_count = 1;
static struct budget budget = {.overhead = USUAL_OVERHEAD};
static double wanted_overhead = USUAL_OVERHEAD; /* of the CPU time */
static _Atomic int64_t pool; /* calls for which there is further credit until the next look */
static _Atomic int64_t pool_since_ns;
static _Atomic uint32_t pool_number; /* of times that it was filled */
static _Atomic bool is_looking; /* at each LOOK_NS */
static _Atomic bool is_begun;   /* the thread */
static _Atomic uint32_t is_called; /* the thread, as a function is left out until its next look */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

enum Place { ARMED, ENTRIES_DISARMED, DISARMED };

/* What is known of a row beside what budget.c knows. All below belongs to the thread that looks. */
struct row {
    uint64_t recorded, left_out; /* or dropped; at the last look */
    double squares_us2;
    int64_t sampled_ns; /* time of the last sample while it is disarmed */
    uint64_t sampled_calls;
    int64_t sample_ns; /* duration of the last one; 0 for none in this look */
    int64_t sample_stands_for_ns;
    uint8_t place, notings;
    bool is_seen; /* some of its calls come though it is disarmed */
};

static struct row rows[FUNCTIONS];
static struct estimate estimates[FUNCTIONS];
static struct observation observations[FUNCTIONS];
static bool chosen[FUNCTIONS];
static int64_t looked_ns;

void note_out(uint32_t row)
{
    if (process->functions[row].out_ns == 0)
        process->functions[row].out_ns = now_ns();
}

static void begin_leaving_out(struct function *function)
{
    note_out(function->row);
    atomic_store_explicit(&function->was_out, 1, memory_order_relaxed);
}

void pass(struct function *function)
{
    begin_leaving_out(function);
    uint32_t recorded = RECORDED;
    atomic_compare_exchange_strong(&function->state, &recorded, PASSED);
}

/* The system's calls, as the waits of the C library that do not follow changes of the time of day are too new. */
static void call_thread_of_looks(void)
{
    if (atomic_exchange(&is_called, 1) == 0)
        syscall(SYS_futex, &is_called, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Wait for so long, or until called; return whether it was called. */
static bool await_call(int64_t longest_ns)
{
    struct timespec longest = {.tv_sec = longest_ns / 1000000000, .tv_nsec = longest_ns % 1000000000};
    if (longest_ns > 0)
        syscall(SYS_futex, &is_called, FUTEX_WAIT_PRIVATE, 0, &longest, NULL, 0);
    return atomic_exchange(&is_called, 0) != 0;
}

static void *look_on(void *unused);

static void begin_thread_of_looks(void)
{
    bool is_there = false;
    if (!atomic_compare_exchange_strong(&is_begun, &is_there, true))
        return;
    sigset_t all, old;
    pthread_t thread;
    pthread_attr_t attributes;
    atomic_store(&is_called, 0);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 1 << 18);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    /* Without it what is passed stays so. */
    if (pthread_create(&thread, &attributes, look_on, NULL) != 0)
        atomic_store(&is_begun, false);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
}

static void fill_pool(uint32_t threads, uint32_t looks)
{
    atomic_store(&pool_since_ns, now_ns());
    atomic_fetch_add(&pool_number, 1);
    atomic_store(&pool, (int64_t)calls_of(&budget, threads) * looks);
}

void add_thread_to_pool(void) { atomic_fetch_add(&pool, (int64_t)calls_of(&budget, 1) * BURST_LOOKS); }

/* Take as many calls from the pool as one does at a time, but no more in all than are left for others. */
static bool take_from_pool(struct function *function)
{
    uint32_t number = atomic_load(&pool_number);
    if (function->pool_number != number) {
        function->pool_number = number;
        function->taken = 0;
    }
    if (atomic_fetch_sub(&pool, CREDIT) < CREDIT + (int64_t)function->taken) {
        atomic_fetch_add(&pool, CREDIT);
        return false;
    }
    function->taken += CREDIT;
    /* The call that asks is recorded. */
    atomic_store(&function->credit, CREDIT - 1);
    return true;
}

bool renew_credit(struct function *function)
{
    if (!atomic_load(&is_looking) && now_ns() - atomic_load(&pool_since_ns) >= BURST_LOOKS * LOOK_NS)
        fill_pool(atomic_load(&ring_count), BURST_LOOKS);
    if (!function->is_sampled && take_from_pool(function))
        return true;
    pass(function);
    /* In MPI nobody handles a signal. */
    if (!atomic_load(&is_begun))
        begin_thread_of_looks();
    /* What is sampled is about to be disarmed anyway. */
    if (atomic_load(&is_begun) && (!atomic_exchange(&is_looking, true) || !function->is_sampled))
        call_thread_of_looks();
    return false;
}

/* Give a slot to a function that is new, if there is a row for it. */
static struct function *describe(struct function *slot, Key key)
{
    uint32_t row = atomic_load(&row_count);
    while (row < FUNCTIONS && !atomic_compare_exchange_weak(&row_count, &row, row + 1))
        ;
    if (row >= FUNCTIONS) {
        atomic_store(&slot->key, 0);
        return &others;
    }
    slot->row = row;
    slot->credit = FIRST_CREDIT;
    process->functions[row].key = key;
    atomic_store(&by_row[row], slot);
    atomic_store_explicit(&slot->key, key, memory_order_release);
    has_functions |= IS_FUNCTION(key);
    /* The program's first functions are called when it begins, and not in a signal's handler. */
    if (IS_FUNCTION(key) && !atomic_load(&is_begun))
        begin_thread_of_looks();
    return slot;
}

struct function *search_function(Key key)
{
    static const Key taken = 1; /* no function's */
    for (uint32_t slot = slot_of(key);; slot++) {
        struct function *function = &functions[slot % FUNCTION_SLOTS];
        Key found = atomic_load_explicit(&function->key, memory_order_acquire);
        if (found == 0 && atomic_load_explicit(&row_count, memory_order_relaxed) >= FUNCTIONS)
            return &others;
        if (found == 0 && atomic_compare_exchange_strong(&function->key, &found, taken))
            return describe(function, key);
        if (found == key)
            return function;
        /* Another thread describes it, or another one. */
        if (found == taken)
            return &others;
    }
}

/* Number of rows that are complete. */
static uint32_t complete_rows(void)
{
    uint32_t count = 0, most = atomic_load(&row_count);
    while (count < most && atomic_load(&by_row[count]) != NULL)
        count++;
    return count;
}

/* What was seen of a row since the last look, in which it was armed or was sampled. */
static struct observation news(struct row *known, struct row now, int64_t duration_ns)
{
    bool is_counted = known->place == ARMED;
    uint64_t left_out = now.left_out - known->left_out, recorded = now.recorded - known->recorded;
    struct observation seen = {
        .calls = is_counted ? recorded + left_out : known->sampled_calls,
        .counted_ns = is_counted ? duration_ns : known->sample_ns,
        .since_ns = is_counted ? duration_ns : known->sample_stands_for_ns,
        .recorded = recorded,
        .squares_us2 = now.squares_us2 - known->squares_us2,
    };
    /* Places of a disarmed function that are not known yet. */
    known->is_seen = !is_counted && 1e9 * (double)left_out > MANY_CALLS_PER_S * (double)duration_ns;
    known->recorded = now.recorded;
    known->left_out = now.left_out;
    known->squares_us2 = now.squares_us2;
    known->sample_ns = 0;
    return seen;
}

static uint64_t calls_of_row(const struct ring *ring, uint32_t row)
{
    return ring->runtimes[row].calls + ring->left_out[row] + ring->dropped[row];
}

/* CPU time of the process that empties the rings, and of this thread. */
static int64_t spent_beside_ns(void)
{
    struct timespec own;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own);
    return atomic_load(&process->drained_ns) + own.tv_sec * INT64_C(1000000000) + own.tv_nsec;
}

/* Threads that wait for a core or for each other have so much less time, of which recording may cost a part. What it
 * costs beside them is taken off where they have their cores: on a busy node most of the rest would be gone, and with
 * it two of three delays of HPCG beside four other programs on two cores. */
static void follow_cpu_time(uint32_t threads, int64_t duration_ns, uint64_t recorded)
{
    static double share = 1;
    static struct beside beside;
    static int64_t before_ns;
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    int64_t now_ns = used.tv_sec * INT64_C(1000000000) + used.tv_nsec, spent_ns = now_ns - before_ns;
    before_ns = now_ns;
    /* A forked child begins at 0; where all is wanted, all is recorded for which there is room. */
    if (threads == 0 || duration_ns <= 0 || spent_ns < 0 || wanted_overhead >= 1)
        return;
    double now = (double)spent_ns / ((double)threads * (double)duration_ns);
    share += SMOOTHING * ((now > 1 ? 1 : now < LEAST_SHARE ? LEAST_SHARE : now) - share);
    double left = left_for_calls(&beside, wanted_overhead, spent_beside_ns(), recorded, threads * duration_ns);
    budget.overhead = share * (share < BUSY_SHARE ? wanted_overhead : left);
}

/* Return the number of threads that called something since the last look. */
static uint32_t observe(uint32_t count)
{
    static uint64_t calls_before[MOST_RINGS];
    static struct row sums[FUNCTIONS];
    int64_t now = now_ns();
    uint32_t rings = atomic_load(&ring_count), threads = 0;
    uint64_t recorded = 0;
    memset(sums, 0, count * sizeof *sums);
    for (uint32_t number = 0; number < rings; number++) {
        const struct ring *ring = all_rings[number];
        uint64_t calls = 0;
        for (uint32_t row = 0; row < count; row++) {
            sums[row].recorded += ring->runtimes[row].calls;
            sums[row].squares_us2 += ring->runtimes[row].squares_us2;
            sums[row].left_out += ring->left_out[row] + ring->dropped[row];
            calls += calls_of_row(ring, row);
        }
        threads += calls != calls_before[number];
        calls_before[number] = calls;
    }
    for (uint32_t row = 0; row < count; row++) {
        observations[row] = news(&rows[row], sums[row], now - looked_ns);
        estimates[row].is_poll = by_row[row]->is_poll;
        recorded += observations[row].recorded;
    }
    follow_cpu_time(threads, now - looked_ns, recorded);
    looked_ns = now;
    return threads;
}

static uint64_t left_out_calls(uint32_t row)
{
    uint64_t calls = 0;
    uint32_t rings = atomic_load(&ring_count);
    for (uint32_t number = 0; number < rings; number++)
        calls += all_rings[number]->left_out[row] + all_rings[number]->dropped[row];
    return calls;
}

/* Calls of a row, recorded or counted. */
static uint64_t all_calls(uint32_t row)
{
    uint64_t calls = left_out_calls(row);
    uint32_t rings = atomic_load(&ring_count);
    for (uint32_t number = 0; number < rings; number++)
        calls += all_rings[number]->runtimes[row].calls;
    return calls;
}

/* Whether a call of a function is open on any thread: then its exit has to be seen. */
static bool is_open(Key key)
{
    uint32_t rings = atomic_load(&ring_count);
    for (uint32_t number = 0; number < rings; number++) {
        const struct ring *ring = all_rings[number];
        uint32_t depth = atomic_load(&ring->depth);
        for (uint32_t at = 0; at < depth && at < DEPTH; at++)
            if (ring->stack[at] == key)
                return true;
    }
    /* A call that is suspended while this looks is one of the ring's before, or here after that. */
    return is_suspended(key);
}

static void change(enum Hook hook, bool is_armed)
{
    static bool is_changed[FUNCTIONS];
    const char *obstacle = NULL;
    uint32_t count = complete_rows();
    for (uint32_t row = 0; row < count; row++) {
        Key key = by_row[row]->key;
        is_changed[row] = chosen[row] && ((hook == ENTRY_HOOK && change_entry(key, is_armed)) ||
                                          change_sleds(key, hook, is_armed));
    }
    change_sites(hook, is_armed, chosen, &obstacle);
    for (uint32_t row = 0; row < count; row++)
        chosen[row] |= is_changed[row];
    if (obstacle != NULL && process->obstacle[0] == '\0')
        strncpy(process->obstacle, obstacle, OBSTACLE_BYTES - 1);
}

static bool is_to_be_armed(uint32_t row)
{
    return rows[row].place != ARMED && estimates[row].decision != LEFT_OUT;
}

/* Arm the places of the functions that are wanted again: first the exits, so that each call that begins can end. */
static void arm_wanted(uint32_t count)
{
    for (int hook = EXIT_HOOK; hook >= ENTRY_HOOK; hook--) {
        for (uint32_t row = 0; row < count; row++)
            chosen[row] = is_to_be_armed(row);
        change((enum Hook)hook, true);
    }
    int64_t now = now_ns();
    for (uint32_t row = 0; row < count; row++) {
        if (!is_to_be_armed(row))
            continue;
        process->functions[row].counted_ns = now;
        rows[row].sampled_calls = all_calls(row);
        if (estimates[row].decision == KEPT)
            rows[row].place = ARMED;
    }
}

/* Whether to disarm a function, one of some that are left out, pays: then its call sites are noted for a moment. */
static bool is_to_be_noted(uint32_t row, uint32_t out_count)
{
    if (!IS_FUNCTION(by_row[row]->key) || row == 0 || rows[row].notings == MOST_NOTINGS)
        return false;
    return rows[row].place == ARMED ? estimates[row].calls_per_s * out_count > MANY_CALLS_PER_S : rows[row].is_seen;
}

/* Let the program's threads know what is decided. Return whether some functions are only looked at for a moment. */
static bool tell(uint32_t count)
{
    bool is_short = false;
    uint32_t out_count = 0;
    for (uint32_t row = 0; row < count; row++)
        out_count += estimates[row].decision == LEFT_OUT;
    for (uint32_t row = 0; row < count; row++) {
        struct function *function = by_row[row];
        bool is_out = estimates[row].decision == LEFT_OUT, is_noted = is_out && is_to_be_noted(row, out_count);
        atomic_store(&function->is_sampled, estimates[row].decision == SAMPLED);
        atomic_store(&function->credit, (int32_t)estimates[row].credit);
        if (is_out)
            begin_leaving_out(function);
        atomic_store(&function->state, is_noted ? NOTED : is_out ? PASSED : RECORDED);
        is_noting |= is_noted;
        if (is_noted)
            rows[row].sampled_calls = all_calls(row);
        is_short |= is_noted || (rows[row].place != ARMED && !is_out);
    }
    return is_short;
}

static void note_sample(uint32_t row, int64_t now)
{
    struct row *known = &rows[row];
    known->sampled_calls = all_calls(row) - known->sampled_calls;
    known->sample_ns = now - process->functions[row].counted_ns;
    known->sample_stands_for_ns = now - known->sampled_ns;
    process->functions[row].samples++;
}

/* Disarm the entries of the functions that are chosen; from then on those are chosen of which some were armed. */
static void disarm_chosen(uint32_t count, int64_t now)
{
    for (uint32_t row = 0; row < count; row++)
        if (chosen[row])
            atomic_store(&by_row[row]->state, PASSED);
    change(ENTRY_HOOK, false);
    is_noting = false;
    for (uint32_t row = 0; row < count; row++) {
        if (!chosen[row])
            continue;
        struct function_row *said = &process->functions[row];
        said->uncounted_ns = said->uncounted_ns == 0 ? now : said->uncounted_ns;
        said->counted_ns = 0;
        rows[row].sampled_ns = now;
        rows[row].place = ENTRIES_DISARMED;
        rows[row].notings = 0;
    }
}

/* Disarm the entries of what was looked at for a moment. */
static void disarm(uint32_t count)
{
    int64_t now = now_ns();
    for (uint32_t row = 0; row < count; row++) {
        bool is_sampled = rows[row].place != ARMED && estimates[row].decision == SAMPLED;
        if (is_sampled)
            note_sample(row, now);
        bool is_noted = by_row[row]->state == NOTED;
        /* A program that had no core meanwhile has shown no place. */
        rows[row].notings += is_noted && all_calls(row) != rows[row].sampled_calls;
        chosen[row] = is_sampled || is_noted;
        if (is_sampled)
            rows[row].place = ARMED;
    }
    disarm_chosen(count, now);
}

static void disarm_exits(uint32_t count)
{
    for (uint32_t row = 0; row < count; row++) {
        chosen[row] = rows[row].place == ENTRIES_DISARMED && !is_open(by_row[row]->key);
        rows[row].place = chosen[row] ? DISARMED : rows[row].place;
    }
    change(EXIT_HOOK, false);
}

static void pause_ns(int64_t duration_ns)
{
    struct timespec duration = {.tv_sec = duration_ns / 1000000000, .tv_nsec = duration_ns % 1000000000};
    nanosleep(&duration, NULL);
}

/* Look at all once, and have calls of so many looks in the pool; return whether all functions are recorded. */
static bool look(uint32_t looks)
{
    static Key keys[FUNCTIONS];
    bool is_all = true, is_short;
    pthread_mutex_lock(&lock);
    uint32_t count = complete_rows(), threads = observe(count);
    decide(&budget, estimates, observations, count, threads);
    for (uint32_t row = 0; row < count; row++)
        keys[row] = by_row[row]->key;
    decide_together(&budget, keys, estimates, observations, count, threads);
    arm_wanted(count);
    is_short = tell(count);
    fill_pool(threads, looks);
    for (uint32_t row = 0; row < count; row++)
        is_all &= estimates[row].decision == KEPT;
    pthread_mutex_unlock(&lock);
    if (!is_short)
        return is_all;
    for (int step = 0; step < 2; step++) {
        pause_ns(SAMPLE_NS);
        pthread_mutex_lock(&lock);
        (step == 0 ? disarm : disarm_exits)(count);
        pthread_mutex_unlock(&lock);
    }
    return is_all;
}

/* Note the functions that are left out and still counted; return how many these are. */
static uint32_t note_counted(uint32_t count)
{
    uint32_t noted = 0;
    for (uint32_t row = 1; row < count; row++) {
        bool is_counted = rows[row].place == ARMED && by_row[row]->state == PASSED && IS_FUNCTION(by_row[row]->key);
        if (!is_counted || rows[row].notings == MOST_NOTINGS)
            continue;
        atomic_store(&by_row[row]->state, NOTED);
        rows[row].sampled_calls = all_calls(row);
        noted++;
    }
    is_noting |= noted > 0;
    return noted;
}

/* Disarm those of so many whose calls cost too much. How many these were from then on is what the next look sees. */
static void disarm_frequent(uint32_t count, uint32_t noted, int64_t noted_ns)
{
    int64_t now = now_ns();
    for (uint32_t row = 0; row < count; row++) {
        chosen[row] = false;
        if (by_row[row]->state != NOTED)
            continue;
        rows[row].sampled_calls = all_calls(row) - rows[row].sampled_calls;
        chosen[row] = 1e9 * noted * (double)rows[row].sampled_calls > MANY_CALLS_PER_S * (double)(now - noted_ns);
        rows[row].notings += chosen[row];
        atomic_store(&by_row[row]->state, PASSED);
    }
    disarm_chosen(count, now);
    for (uint32_t row = 0; row < count; row++) {
        if (!chosen[row])
            continue;
        rows[row].sample_ns = now - noted_ns;
        rows[row].sample_stands_for_ns = now - looked_ns;
        /* What comes from now on comes by places that are not known yet. */
        rows[row].left_out = left_out_calls(row);
    }
}

/* Look only at what is left out since the last look: a program that begins something else may call it a million times
 * until the next one. */
static void look_for_floods(void)
{
    pthread_mutex_lock(&lock);
    uint32_t count = complete_rows(), noted = process == NULL ? 0 : note_counted(count);
    pthread_mutex_unlock(&lock);
    if (noted == 0)
        return;
    int64_t noted_ns = now_ns();
    pause_ns(FLOOD_NS);
    pthread_mutex_lock(&lock);
    disarm_frequent(count, noted, noted_ns);
    pthread_mutex_unlock(&lock);
    pause_ns(SAMPLE_NS);
    pthread_mutex_lock(&lock);
    disarm_exits(count);
    pthread_mutex_unlock(&lock);
}

/* Whether all threads of the program have ended by pthread_exit, the first of them too: then this one ends the
 * process, as the last one would have done. */
static bool is_alone(void)
{
    char text[512];
    int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    text[bytes < 0 ? 0 : bytes] = '\0';
    char state;
    int threads;
    const char *behind = strrchr(text, ')');
    return behind != NULL &&
           sscanf(behind + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d", &state,
                  &threads) == 2 &&
           state == 'Z' && threads <= 2;
}

static bool has_to_join(void)
{
    pthread_mutex_lock(&lock);
    bool is_called = process != NULL && is_called_to_look();
    pthread_mutex_unlock(&lock);
    return is_called;
}

/* Record the functions that the compiler has prepared in what was loaded since this was asked last. */
static void look_for_loaded(void)
{
    static unsigned long long loaded;
    unsigned long long now = count_loaded();
    if (now != loaded && find_entries()) {
        const char *obstacle = obstacle_to_changes();
        arm_found_entries(&obstacle);
    }
    loaded = now;
}

static void *look_on(void *unused)
{
    (void)unused;
    prctl(PR_SET_NAME, "chimbuko");
    bool is_first = true; /* after a sleep */
    int quiet = 0;
    looked_ns = now_ns();
    /* Who begins like that goes on like that. */
    int64_t next_ns = looked_ns + LOOK_NS / 10;
    for (int64_t asked_ns = looked_ns;;) {
        if (!atomic_load(&is_looking)) {
            is_first = true;
            await_call(1000000000);
        } else {
            while (await_call(next_ns - now_ns()))
                look_for_floods();
        }
        if (now_ns() - asked_ns >= 1000000000) {
            asked_ns = now_ns();
            if (is_alone())
                return NULL;
            pthread_mutex_lock(&lock);
            look_for_loaded();
            pthread_mutex_unlock(&lock);
            if (!atomic_load(&is_looking) && has_to_join())
                atomic_store(&is_looking, true);
        }
        if (!atomic_load(&is_looking) || process == NULL)
            continue;
        quiet = look(is_first ? UNSPENT_LOOKS : 1) ? quiet + 1 : 0;
        is_first = false;
        next_ns = looked_ns + LOOK_NS;
        if (quiet == QUIET_LOOKS) {
            quiet = 0;
            atomic_store(&is_looking, false);
        }
    }
}

void prepare_looks(void)
{
    const char *given = getenv(OVERHEAD_VARIABLE);
    double overhead = given == NULL ? 0 : strtod(given, NULL);
    if (overhead > 0 && overhead <= 1)
        budget.overhead = wanted_overhead = overhead;
    atomic_store(&others.credit, FIRST_CREDIT);
}

/* Functions that a process inherited from its parent stay what they are, and so do the changes of its code. */
void begin_looks_of_process(void)
{
    uint32_t count = complete_rows();
    process->overhead = wanted_overhead;
    for (uint32_t row = 0; row < count; row++) {
        process->functions[row].key = by_row[row]->key;
        if (by_row[row]->was_out)
            process->functions[row].out_ns = process->start_ns;
        if (rows[row].place != ARMED)
            process->functions[row].uncounted_ns = process->start_ns;
    }
    if (count > 1 && !atomic_load(&is_begun))
        begin_thread_of_looks();
}

void forget_looks(void)
{
    atomic_store(&is_begun, false);
    forget_node();
    for (uint32_t row = 0; row < atomic_load(&row_count); row++) {
        rows[row].recorded = rows[row].left_out = 0;
        rows[row].squares_us2 = 0;
    }
}

void hold_looks(void) { pthread_mutex_lock(&lock); }

void release_looks(void) { pthread_mutex_unlock(&lock); }
