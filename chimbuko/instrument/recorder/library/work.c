/* Counters of a thread's work, which are read by system calls. */
#define _GNU_SOURCE
#include "work.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_VARIABLE "CHIMBUKO_RECORDER_EVENTS"
#define HARDWARE 3
#define OFF_CORE 2
/* Less is within the uncertainty of two clocks that are read one after the other. */
#define LEAST_OFF_CORE_US 100
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
const char *const work_names[WORK_COUNTS] = {
    "Work: CPU time (us)",
    "Work: page faults",
    "Work: time off the core (us)",
    "Work: instructions",
    "Work: cycles",
    "Work: cache misses",
};

/* Whether this machine counts such events: that is asked once. */
static _Atomic bool has_none;

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

static void open_group(struct work_reader *own)
{
    const char *given = getenv(EVENTS_VARIABLE);
    const struct event_kind *wanted = given != NULL && strcmp(given, "software") == 0 ? software : hardware;
    own->is_open = true;
    if (atomic_load(&has_none))
        return;
    own->file = open_event(&wanted[0], -1);
    int others[HARDWARE - 1];
    bool are_all = own->file > 0;
    for (int number = 1; number < HARDWARE; number++) {
        others[number - 1] = are_all ? open_event(&wanted[number], own->file) : -1;
        are_all = are_all && others[number - 1] >= 0;
    }
    if (are_all && ioctl(own->file, PERF_EVENT_IOC_ID, &own->id) == 0)
        return;
    for (int number = 1; number < HARDWARE; number++)
        if (others[number - 1] >= 0)
            close(others[number - 1]);
    if (own->file > 0)
        close(own->file);
    own->file = 0;
    atomic_store(&has_none, true);
}

/* Whether the file is still ours: programs may close all that they do not know, and open others. */
static bool is_own_file(const struct work_reader *own)
{
    uint64_t id = 0;
    return own->file > 0 && ioctl(own->file, PERF_EVENT_IOC_ID, &id) == 0 && id == own->id;
}

static uint64_t us_of(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * UINT64_C(1000000) + (uint64_t)time->tv_nsec / 1000;
}

void read_work(struct work_reader *own, struct work *now)
{
    int before = errno;
    struct rusage used;
    struct timespec ran, passed;
    memset(now, 0, sizeof *now);
    if (!own->is_open)
        open_group(own);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran);
    clock_gettime(CLOCK_MONOTONIC, &passed);
    now->counts[0] = us_of(&ran);
    now->counts[OFF_CORE] = us_of(&passed) - us_of(&ran);
    if (getrusage(RUSAGE_THREAD, &used) == 0)
        now->counts[1] = (uint64_t)(used.ru_minflt + used.ru_majflt);
    struct {
        uint64_t count, running_ns, values[HARDWARE];
    } group;
    if (!is_own_file(own))
        own->file = 0;
    /* Where others have the machine's counters, the group counts some of the time only, and then nothing is said. */
    else if (read(own->file, &group, sizeof group) == sizeof group && group.running_ns > 0)
        memcpy(&now->counts[WORK_COUNTS - HARDWARE], group.values, sizeof group.values);
    errno = before;
}

uint64_t work_between(const struct work *last, const struct work *now, unsigned number)
{
    uint64_t before = last->counts[number], after = now->counts[number];
    bool is_known = after >= before && (number < WORK_COUNTS - HARDWARE || before != 0);
    uint64_t amount = is_known ? after - before : 0;
    return number == OFF_CORE && amount < LEAST_OFF_CORE_US ? 0 : amount;
}

void end_work(struct work_reader *own)
{
    if (is_own_file(own))
        close(own->file);
    memset(own, 0, sizeof *own);
}
