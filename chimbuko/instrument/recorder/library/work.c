/* Counters of a thread's work. They are read by system calls, once a millisecond at most, and recorded only where the
 * thread has had no event for so long: what lies between is of one call's own code. */
#define _GNU_SOURCE
#include "recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EVENTS_VARIABLE "CHIMBUKO_RECORDER_EVENTS"
#define HARDWARE 3
/* Files get numbers from here on: programs may count on having the lowest ones. */
#define FIRST_FILE 700

static const struct event_kind {
    uint32_t type;
    uint64_t config;
} hardware[HARDWARE] = {
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
};
/* Events that the kernel counts on all machines: with CHIMBUKO_RECORDER_EVENTS=software they stand for the others,
 * so that their way can be tested where there are none. */
static const struct event_kind software[HARDWARE] = {
    {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK},
    {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK},
    {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
};
static const char *const names[2 + HARDWARE] = {
    "Work: CPU time (us)", "Work: page faults", "Work: instructions", "Work: cycles", "Work: cache misses",
};

static __thread __attribute__((tls_model("initial-exec"))) struct {
    bool is_open;
    int file; /* of the group; 0 or less for none */
    uint64_t id;
    struct work last;
} own;
/* Whether this machine counts such events: that is asked once. */
static _Atomic bool has_none;
static unsigned known[2 + HARDWARE];

static int open_event(const struct event_kind *kind, int group)
{
    struct perf_event_attr wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.size = sizeof wanted;
    wanted.type = kind->type;
    wanted.config = kind->config;
    wanted.exclude_kernel = kind->type == PERF_TYPE_HARDWARE;
    wanted.exclude_hv = 1;
    wanted.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_RUNNING;
    int opened = (int)syscall(SYS_perf_event_open, &wanted, 0, -1, group, PERF_FLAG_FD_CLOEXEC);
    int moved = opened < 0 ? -1 : fcntl(opened, F_DUPFD_CLOEXEC, FIRST_FILE);
    if (opened >= 0)
        close(opened);
    return moved;
}

static void open_group(void)
{
    const char *given = getenv(EVENTS_VARIABLE);
    const struct event_kind *wanted = given != NULL && strcmp(given, "software") == 0 ? software : hardware;
    own.is_open = true;
    if (atomic_load(&has_none))
        return;
    own.file = open_event(&wanted[0], -1);
    int others[HARDWARE - 1];
    bool are_all = own.file > 0;
    for (int number = 1; number < HARDWARE; number++) {
        others[number - 1] = are_all ? open_event(&wanted[number], own.file) : -1;
        are_all = are_all && others[number - 1] >= 0;
    }
    if (are_all && ioctl(own.file, PERF_EVENT_IOC_ID, &own.id) == 0)
        return;
    for (int number = 1; number < HARDWARE; number++)
        if (others[number - 1] >= 0)
            close(others[number - 1]);
    if (own.file > 0)
        close(own.file);
    own.file = 0;
    atomic_store(&has_none, true);
}

/* Whether the file is still ours: programs may close all that they do not know, and open others. */
static bool is_own_file(void)
{
    uint64_t id = 0;
    return own.file > 0 && ioctl(own.file, PERF_EVENT_IOC_ID, &id) == 0 && id == own.id;
}

static void read_work(struct work *now)
{
    struct rusage used;
    struct timespec ran;
    memset(now, 0, sizeof *now);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran);
    now->cpu_ns = (uint64_t)ran.tv_sec * UINT64_C(1000000000) + (uint64_t)ran.tv_nsec;
    if (getrusage(RUSAGE_THREAD, &used) == 0)
        now->faults = (uint64_t)(used.ru_minflt + used.ru_majflt);
    struct {
        uint64_t count, running_ns, values[HARDWARE];
    } group;
    if (!is_own_file()) {
        own.file = 0;
        return;
    }
    /* Where others have the machine's counters, the group counts some of the time only, and then nothing is said. */
    if (read(own.file, &group, sizeof group) == sizeof group && group.running_ns > 0)
        memcpy(now->hardware, group.values, sizeof group.values);
}

static void write_counter(unsigned number, uint64_t value, int64_t now)
{
    /* Room is kept for the event that comes next, and for the EXIT of each open call. */
    if (value == 0 || known[number] == 0 || !has_room(self.depth + 4))
        return;
    struct event *event = next_event(COUNTER, now);
    event->value = (double)value;
    event->tag = (int32_t)(known[number] - 1);
    publish();
}

/* Note what was done since the last reading, if this thread has had no event for long. It is called where the thread
 * records an event, before that is written. */
void count_work(int64_t now)
{
    int before = errno;
    int64_t last_event = self.written == 0 ? now : self.events[(self.written - 1) & self.mask].time_ns;
    struct work current, last = own.last;
    if (!own.is_open)
        open_group();
    read_work(&current);
    own.last = current;
    /* Of the first reading nobody knows what came before it. */
    bool is_known = self.counted_ns != 0;
    self.counted_ns = now;
    if (is_known && now - last_event >= READ_NS && self.depth > 0) {
        for (unsigned number = 0; number < 2 + HARDWARE && known[number] == 0; number++)
            known[number] = number_of_name(names[number]);
        if (self.is_lane_unsaid && has_room(self.depth + 4)) {
            write_call(LANE, 0, now, 0);
            self.is_lane_unsaid = false;
        }
        write_counter(0, (current.cpu_ns - last.cpu_ns) / 1000, now);
        write_counter(1, current.faults - last.faults, now);
        for (int number = 0; number < HARDWARE; number++)
            if (last.hardware[number] != 0 && current.hardware[number] >= last.hardware[number])
                write_counter(2 + (unsigned)number, current.hardware[number] - last.hardware[number], now);
    }
    errno = before;
}

void end_work(void)
{
    if (is_own_file())
        close(own.file);
    memset(&own, 0, sizeof own);
}
