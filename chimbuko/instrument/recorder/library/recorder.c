/* The files that describe a process and its threads, from its beginning to its end. */
#define _GNU_SOURCE
#include "recorder.h"

#include "callers.h"
#include "entries.h"
#include "gpu.h"
#include "openmp.h"
#include "sleds.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FOLDER_VARIABLE "CHIMBUKO_RECORDER"
#define USAGE_VARIABLE "CHIMBUKO_RECORDER_USAGE"
#define COUNT_VARIABLE "CHIMBUKO_RECORDER_COUNT"
/* Count of skipped open calls of a thread whose calls are all skipped: it never falls to 0. */
#define ALL UINT32_C(0x80000000)

__thread struct thread self;
__thread uint32_t wanted_number;
struct process *process;
bool is_usage_wanted;
bool is_only_counting;
struct counts *counts;

static char folder[PATH_BYTES];
static char stem[64]; /* of the names of this process's files */
static bool is_forked;
static pid_t forked_by; /* the process that has forked this one, which may have ended since */
static const struct process *forked_from; /* file of the nearest recorded ancestor, or NULL */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for the variables below */
static bool is_tried;
static pthread_once_t is_prepared = PTHREAD_ONCE_INIT;
static void prepare(void);
static pthread_key_t at_thread_end;
struct ring *all_rings[MOST_RINGS];
_Atomic uint32_t ring_count;
static struct ring *ended[MOST_RINGS]; /* rings of threads that have ended, for new threads */
static unsigned ended_count;
static _Atomic bool is_taken[MOST_RINGS]; /* the numbers of threads */

#include "functions.h"

static void *make_file(const char *name, size_t bytes)
{
    char hidden[PATH_BYTES + 160], path[PATH_BYTES + 160];
    snprintf(hidden, sizeof hidden, "%s/.%s", folder, name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int file = open(hidden, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return NULL;
    /* Allocate all pages now: one for which there were no room later would end the program by SIGBUS. */
    void *memory = MAP_FAILED;
    if (posix_fallocate(file, 0, (off_t)bytes) == 0)
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    close(file);
    if (memory == MAP_FAILED)
        unlink(hidden);
    return memory == MAP_FAILED ? NULL : memory;
}

/* Give a complete file its name, under which the drain sees it. */
static void show_file(const char *name)
{
    char hidden[PATH_BYTES + 160], path[PATH_BYTES + 160];
    snprintf(hidden, sizeof hidden, "%s/.%s", folder, name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    rename(hidden, path);
}

/* Offset from the monotonic clock to the epoch, by the tightest of some readings: a process that lost its core
 * between two would be off by ms. */
static int64_t clock_offset_ns(void)
{
    int64_t tightest = INT64_MAX, offset = 0;
    for (int reading = 0; reading < 10; reading++) {
        struct timespec epoch;
        int64_t before = now_ns();
        clock_gettime(CLOCK_REALTIME, &epoch);
        int64_t after = now_ns();
        if (after - before < tightest) {
            tightest = after - before;
            offset = epoch.tv_sec * INT64_C(1000000000) + epoch.tv_nsec - (before + after) / 2;
        }
    }
    return offset;
}

/* Note the executable mappings of files: a process may end before the drain has looked at it. */
static void note_maps(void)
{
    size_t used = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[PATH_BYTES + 160];
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        size_t length = strlen(line);
        if (strstr(line, " r-xp ") == NULL || strchr(line, '/') == NULL || line[length - 1] != '\n')
            continue;
        if (used + length >= MAPS_BYTES)
            break;
        memcpy(process->maps + used, line, length + 1);
        used += length;
    }
    if (maps != NULL)
        fclose(maps);
}

static void end_thread(void *ring)
{
    (void)ring;
    if (process == NULL || self.ring == NULL)
        return;
    end_openmp_of_thread();
    end_callers();
    int64_t now = now_ns();
    while (self.depth > 0)
        pop_call(now, 0);
    end_stacks(now);
    forget_callers_of_thread();
    forget_crashes_of_thread();
    end_counting();
    pthread_mutex_lock(&lock);
    if (ended_count < sizeof ended / sizeof *ended)
        ended[ended_count++] = self.ring;
    pthread_mutex_unlock(&lock);
    /* Other destructors of this thread may still call recorded functions. */
    self.is_off = true;
    self.ring = NULL;
    forget_own_stack();
}

static void begin_process(void)
{
    is_tried = true;
    int64_t start = now_ns();
    snprintf(stem, sizeof stem, "%d-%lld", (int)getpid(), (long long)start);
    char name[128];
    snprintf(name, sizeof name, "%s.process", stem);
    struct process *made = make_file(name, sizeof *made);
    if (made == NULL)
        return;
    made->version = LAYOUT_VERSION;
    made->bytes = sizeof *made;
    made->pid = (uint32_t)getpid();
    made->parent = (uint32_t)(is_forked ? forked_by : getppid());
    made->world_rank = -1;
    made->clock_offset_ns = clock_offset_ns();
    made->start_ns = start;
    made->is_forked = is_forked;
    ssize_t length = readlink("/proc/self/exe", made->executable, PATH_BYTES - 1);
    made->executable[length < 0 ? 0 : length] = '\0';
    unsigned names = function_count < NAMES ? function_count : NAMES;
    for (unsigned number = 0; number < names; number++)
        strncpy(made->names[number].text, function_names[number], NAME_BYTES - 1);
    /* Numbers of names that the program inherited from its parent keep their meaning. */
    if (forked_from != NULL) {
        names = atomic_load(&forked_from->name_count);
        memcpy(made->names, forked_from->names, sizeof made->names);
    }
    atomic_store(&made->name_count, names);
    /* Another one in each process, in both halves. */
    made->communicators[OPENMP_COMMUNICATOR].identity =
        ((uint64_t)start ^ (uint64_t)made->pid << 40) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    memcpy(made->magic, PROCESS_MAGIC, sizeof made->magic);
    process = made;
    begin_looks_of_process();
    note_maps();
    show_file(name);
    watch_crashes();
    prepare_stacks();
}

/* A ring of a thread that has ended, with room for the event that says whose it is from now on; NULL for none. */
static struct ring *take_over(void)
{
    if (ended_count == 0)
        return NULL;
    struct ring *ring = ended[ended_count - 1];
    uint64_t used = atomic_load(&ring->written) - atomic_load(&ring->read);
    return is_only_counting || used + 1 < ring->capacity ? ended[--ended_count] : NULL;
}

/* A ring for a thread whose messages are only counted: its capacity of 1 is too small for any event. */
static struct ring *make_empty_ring(void)
{
    struct ring *made =
        mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        return NULL;
    made->capacity = 1;
    made->thread = (int32_t)atomic_fetch_add(&process->thread_count, 1);
    return made;
}

static struct ring *make_ring_of(uint32_t number, uint32_t tid, uint32_t description)
{
    size_t bytes = sizeof(struct ring) + RING_EVENTS * sizeof(struct event);
    char name[128];
    snprintf(name, sizeof name, "%s.%u.ring", stem, number);
    struct ring *made = make_file(name, bytes);
    if (made == NULL) {
        atomic_fetch_add(&process->threads_without_ring, 1);
        return NULL;
    }
    made->version = LAYOUT_VERSION;
    made->capacity = RING_EVENTS;
    made->header_bytes = sizeof *made;
    made->thread = (int32_t)number;
    made->tid = tid;
    made->description = description;
    memcpy(made->magic, RING_MAGIC, sizeof made->magic);
    show_file(name);
    return made;
}

uint32_t next_thread_number(uint32_t wanted)
{
    if (wanted != 0 && wanted < MOST_RINGS && !atomic_exchange(&is_taken[wanted], true))
        return wanted;
    for (;;) {
        uint32_t number = atomic_fetch_add(&process->thread_count, 1) + 1;
        if (number >= MOST_RINGS || !atomic_exchange(&is_taken[number], true))
            return number;
    }
}

static struct ring *make_ring(void)
{
    if (is_only_counting)
        return make_empty_ring();
    uint32_t tid = (uint32_t)syscall(SYS_gettid);
    /* Thread 0 is the main thread, even where it is recorded later than others. */
    uint32_t number = (pid_t)tid == getpid() ? 0 : next_thread_number(wanted_number);
    struct ring *made = make_ring_of(number, tid, 0);
    if (made == NULL)
        return NULL;
    uint32_t count = atomic_load(&ring_count);
    if (count < MOST_RINGS) {
        all_rings[count] = made;
        atomic_store(&ring_count, count + 1);
    }
    add_thread_to_pool();
    return made;
}

struct ring *make_queue_ring(const char *description)
{
    uint32_t number = next_thread_number(0);
    return make_ring_of(number, FIRST_QUEUE + number, number_of_name(description));
}

bool begin_thread(void)
{
    int before = errno, cancellable;
    sigset_t all, old;
    /* A thread that is cancelled where it opens its ring would keep the lock, and all that begin later would wait. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
    /* Constructors of other libraries, such as Open MPI's for C++, may run before ours. */
    pthread_once(&is_prepared, prepare);
    if (folder[0] == '\0') {
        self.is_off = true;
        pthread_setcancelstate(cancellable, NULL);
        return false;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    pthread_mutex_lock(&lock);
    if (process == NULL && !is_tried)
        begin_process();
    struct ring *ring = process == NULL ? NULL : take_over();
    bool is_taken_over = ring != NULL;
    if (process != NULL && !is_taken_over)
        ring = make_ring();
    pthread_mutex_unlock(&lock);
    self.is_off = ring == NULL;
    if (ring != NULL) {
        self.ring = ring;
        self.events = (struct event *)(ring + 1);
        self.mask = ring->capacity - 1;
        self.written = atomic_load(&ring->written);
        self.read = atomic_load(&ring->read);
        self.depth = 0;
        self.callers = 0;
        self.skipped = is_only_counting ? ALL : 0;
        self.skip_count = &ring->dropped_calls;
        self.skipped_frame = ANY_FRAME;
        self.lane = (uint32_t)ring->thread;
        self.suspended = 0;
        self.stacks = NULL;
        self.is_lane_unsaid = ring->lanes > 0;
        if (is_taken_over && !is_only_counting)
            write_call(LANE, (Key)syscall(SYS_gettid), now_ns(), 0);
        note_own_stack();
        pthread_setspecific(at_thread_end, ring);
        watch_crashes_of_thread();
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_setcancelstate(cancellable, NULL);
    errno = before;
    return ring != NULL;
}

bool look_for_room(uint32_t events)
{
    uint64_t read = atomic_load_explicit(&self.ring->read, memory_order_acquire);
    /* The drain's position is used only where it is possible. */
    if (read <= self.written && (int64_t)(read - self.suspended - self.read) >= 0)
        self.read = read - self.suspended; /* Room is kept for the ends of calls on other stacks. */
    return self.written + events - self.read <= self.mask;
}

/* Whether a function that begins with the frame of the innermost open call says that this was left. Functions that are
 * part of another one have its site, and call us from elsewhere; two that were called one after the other may have the
 * same frame; of MPI's, none is part of another one. */
bool is_other_call(Key called, uintptr_t site)
{
    uintptr_t its = self.ring->site[self.depth - 1];
    bool are_mpi = (self.ring->stack[self.depth - 1] & called & NAMED) != 0;
    return are_mpi || (site != 0 && (its == site || (its ^ site) << 16 != 0));
}

/* End the open calls that were left without an EXIT, when a function is called that they cannot have called. */
void leave_gone(uintptr_t frame, Key called, uintptr_t site, uintptr_t from, int64_t now)
{
    while (is_innermost_gone(frame, called, site, from)) {
        /* One that begins again on a stack that is not the thread's own was given up with that. */
        bool is_given_up = self.ring->frame[self.depth - 1] == frame && self.lane != (uint32_t)self.ring->thread;
        pop_call(now, is_given_up ? LEFT_EARLIER : 0);
    }
}

/* Whether the recorder was left by a longjmp out of a signal's handler: then no function of its frame, or of one
 * below that, runs any more. What it was about to write is written, or has never begun. */
bool is_left(uintptr_t now, bool is_entry)
{
    if (!is_stack_left(self.busy_frame, now)) {
        if (is_entry && self.ring != NULL)
            atomic_fetch_add_explicit(&self.ring->interrupting_calls, 1, memory_order_relaxed);
        return false;
    }
    if (self.stacks != NULL)
        resume_stack();
    if (self.ring != NULL) {
        self.written = atomic_load(&self.ring->written);
        self.depth = self.written == self.seen ? self.before : self.after;
        atomic_store_explicit(&self.ring->depth, self.depth, memory_order_relaxed);
    }
    return true;
}

/* Handle an EXIT that is not that of the innermost call: after longjmp, or of a call that began unrecorded. */
void leave_unusual(const struct function *function, Key key, uintptr_t frame, uintptr_t site)
{
    for (uint32_t outer = self.depth; outer > 0; outer--) {
        if (self.ring->stack[outer - 1] != key || (function->was_out && !is_exit_of(outer - 1, frame, site)))
            continue;
        int64_t now = now_ns();
        while (self.depth >= outer)
            pop_call(now, 0);
        return;
    }
    /* One that was never left out began elsewhere. */
    if (!function->was_out && self.lane != (uint32_t)self.ring->thread)
        atomic_fetch_add_explicit(&self.ring->strayed_calls, 1, memory_order_relaxed);
}

/* Count a call that is not recorded: there was no room for it, or for one that it is part of. */
void count_dropped(const struct function *function, _Atomic uint64_t *reason)
{
    note_out(function->row);
    self.ring->dropped[function->row]++;
    atomic_store_explicit(reason, atomic_load_explicit(reason, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* For a thread that records. */
static Key find_name(const char *name)
{
    Key key = 0;
    pthread_mutex_lock(&lock);
    uint32_t count = atomic_load(&process->name_count);
    for (uint32_t number = 0; number < count && key == 0; number++)
        if (strncmp(process->names[number].text, name, NAME_BYTES - 1) == 0)
            key = NAMED | number;
    if (key == 0 && count < NAMES) {
        strncpy(process->names[count].text, name, NAME_BYTES - 1);
        atomic_store(&process->name_count, count + 1);
        key = NAMED | count;
    }
    pthread_mutex_unlock(&lock);
    return key;
}

Key key_of_name(const char *name)
{
    if (!acquire())
        return 0;
    Key key = find_name(name);
    release();
    return key;
}

unsigned number_of_name(const char *name)
{
    Key key = find_name(name);
    return key == 0 ? 0 : (unsigned)(key & ~NAMED) + 1;
}

uint16_t new_group(uint64_t identity, uint32_t size, int32_t rank)
{
    pthread_mutex_lock(&lock);
    uint32_t row = atomic_load(&process->communicator_count) + 1;
    if (row < OPENMP_COMMUNICATOR) {
        process->communicators[row] = (struct communicator){.identity = identity, .size = size, .rank = rank};
        atomic_store(&process->communicator_count, row);
    }
    pthread_mutex_unlock(&lock);
    return row < OPENMP_COMMUNICATOR ? (uint16_t)row : 0;
}

static void make_counts(int rank, int size)
{
    char name[128];
    snprintf(name, sizeof name, "%s.counts", stem);
    struct counts *made = make_file(name, sizeof *made + (size_t)size * sizeof *made->partners);
    if (made == NULL)
        return;
    made->version = LAYOUT_VERSION;
    made->world_rank = rank;
    made->world_size = (uint32_t)size;
    memcpy(made->executable, process->executable, sizeof made->executable);
    memcpy(made->magic, COUNTS_MAGIC, sizeof made->magic);
    counts = made;
    show_file(name);
}

void note_world(int rank, int size)
{
    if (process != NULL && is_only_counting && counts == NULL)
        make_counts(rank, size);
    if (process != NULL) {
        process->world_size = size;
        process->world_rank = rank;
    }
}

static void end_process(void)
{
    if (process != NULL && process->pid == (uint32_t)getpid()) {
        note_maps();
        if (is_in_mpi())
            note_end(ENDED_IN_MPI, 0);
        else
            end_callers();
        atomic_store(&process->end_ns, now_ns());
        /* Destructors of other libraries, such as Open MPI's for C++, may run after ours. */
        self.is_off = true;
    }
}

const char *recorder_folder(void) { return folder; }

static void before_fork(void)
{
    hold_looks();
    pthread_mutex_lock(&lock);
    forked_by = getpid();
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&lock);
    release_looks();
}

/* Begin anew in a forked child: it has its parent's rings mapped, and must never write there. */
static void after_fork_in_child(void)
{
    pthread_mutex_unlock(&lock);
    release_looks();
    forked_from = process == NULL ? forked_from : process;
    process = NULL;
    counts = NULL;
    is_tried = false;
    is_forked = true;
    ended_count = 0;
    ring_count = 0;
    memset((void *)is_taken, 0, sizeof is_taken);
    end_counting();
    memset(&self, 0, sizeof self);
    forget_looks();
    forget_stacks();
    forget_openmp();
    forget_mpi();
    forget_gpus();
}

/* These end a process without its destructors. */
EXPORTED void _exit(int code)
{
    end_process();
    for (;;)
        syscall(SYS_exit_group, code);
}

EXPORTED void _Exit(int code) { _exit(code); }

static void prepare(void)
{
    const char *given = getenv(FOLDER_VARIABLE);
    if (given == NULL || given[0] != '/' || strlen(given) >= sizeof folder - 160)
        return;
    strcpy(folder, given);
    is_usage_wanted = getenv(USAGE_VARIABLE) != NULL;
    is_only_counting = getenv(COUNT_VARIABLE) != NULL;
    prepare_looks();
    prepare_openmp();
    pthread_key_create(&at_thread_end, end_thread);
    at_quick_exit(end_process);
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* Record the functions that the compiler has prepared: the process begins, as none of them calls us before. */
static void begin_prepared(void)
{
    if (is_only_counting)
        return;
    bool has_sleds = find_sleds(), has_entries = find_entries();
    if ((!has_sleds && !has_entries) || !acquire())
        return;
    release();
    process->is_prepared = true;
    const char *obstacle = obstacle_to_changes();
    arm_all_sleds(&obstacle);
    arm_found_entries(&obstacle);
    if (obstacle != NULL)
        snprintf(process->obstacle, OBSTACLE_BYTES, "functions compiled with %s are not recorded: %s",
                 has_sleds ? "-fxray-instrument" : "-fpatchable-function-entry", obstacle);
}

/* The C library passes the words of the command line. */
__attribute__((constructor)) static void begin(int count, char **words)
{
    (void)count;
    pthread_once(&is_prepared, prepare);
    if (folder[0] == '\0')
        return;
    if (!is_only_counting)
        become_recorded(words);
    /* The program itself gets a stream even if it records nothing; processes that it starts only if they do. */
    const char *first = getenv("CHIMBUKO_RECORDER_PID");
    if (first != NULL && atol(first) == (long)getpid() && acquire())
        release();
    begin_prepared();
}

__attribute__((destructor)) static void end(void) { end_process(); }
