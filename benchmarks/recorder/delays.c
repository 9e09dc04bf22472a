/* Delays in a program that knows nothing of them, to be preloaded: at given moments a trap is set at the beginning of a
 * function, and its next call spins there. With nothing to delay, it tells every few ms of CPU time who calls whom. */
#define _GNU_SOURCE
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { MOST_DELAYS = 1000, MOST_FRAMES = 64, LOOK_US = 2000, TRAP = 0xcc };

static struct delay {
    double at_s, length_s;
    uintptr_t place;
    uint8_t original;
    int is_set;
} delays[MOST_DELAYS];
static int delay_count, next_delay, memory, output;
static uintptr_t base;

static int64_t now_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Through the file pages can be written whatever their protection is, which the recorder changes. */
static void write_byte(uintptr_t place, uint8_t byte)
{
    if (pwrite(memory, &byte, 1, (off_t)place) != 1)
        abort();
}

static void set_trap(int signal)
{
    (void)signal;
    struct delay *delay = &delays[next_delay++];
    for (int other = 0; other < next_delay - 1; other++)
        if (delays[other].is_set && delays[other].place == delay->place)
            return;
    delay->original = *(volatile uint8_t *)delay->place;
    delay->is_set = 1;
    write_byte(delay->place, TRAP);
}

static void spin(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t place = (uintptr_t)registers[REG_RIP] - 1;
    for (int number = 0; number < next_delay; number++) {
        struct delay *delay = &delays[number];
        if (!delay->is_set || delay->place != place)
            continue;
        delay->is_set = 0;
        write_byte(place, delay->original);
        registers[REG_RIP] = (greg_t)place;
        int64_t began_us = now_us(CLOCK_REALTIME), until_us = began_us + (int64_t)(1e6 * delay->length_s);
        while (now_us(CLOCK_REALTIME) < until_us)
            ;
        char line[100];
        int length = snprintf(line, sizeof line, "%d %lld %lld\n", number, (long long)began_us,
                              (long long)now_us(CLOCK_REALTIME));
        if (write(output, line, (size_t)length) < 0)
            abort();
        return;
    }
}

static void look(int signal)
{
    (void)signal;
    void *frames[MOST_FRAMES];
    char line[MOST_FRAMES * 20];
    int depth = backtrace(frames, MOST_FRAMES), length = 0;
    for (int at = 2; at < depth; at++)
        length += snprintf(line + length, sizeof line - (size_t)length, "%lx ", (uintptr_t)frames[at] - base);
    line[length++] = '\n';
    if (write(output, line, (size_t)length) < 0)
        abort();
}

static int find_base(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size, (void)data;
    base = info->dlpi_addr;
    return 1;
}

static void handle(int signal, void *handler, int flags)
{
    struct sigaction action = {.sa_flags = SA_RESTART | flags};
    action.sa_sigaction = (void (*)(int, siginfo_t *, void *))handler;
    sigaction(signal, &action, NULL);
}

static void set_timers(void)
{
    for (int number = 0; number < delay_count; number++) {
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 5};
        int64_t after_ns = (int64_t)(1e9 * delays[number].at_s);
        struct itimerspec once = {.it_value = {after_ns / 1000000000, after_ns % 1000000000}};
        timer_t timer;
        if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &once, NULL) != 0)
            abort();
    }
}

__attribute__((constructor)) static void begin(void)
{
    const char *program = getenv("DELAYS_PROGRAM"), *places = getenv("DELAYS"), *file = getenv("DELAYS_OUTPUT");
    char own[4096] = "";
    if (program == NULL || file == NULL || readlink("/proc/self/exe", own, sizeof own - 1) < 0 ||
        strcmp(own, program) != 0)
        return;
    dl_iterate_phdr(find_base, NULL);
    output = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    if (places == NULL) {
        void *frame;
        backtrace(&frame, 1); /* It loads a library the first time. */
        handle(SIGPROF, look, 0);
        struct itimerval each = {{0, LOOK_US}, {0, LOOK_US}};
        setitimer(ITIMER_PROF, &each, NULL);
        return;
    }
    for (int read; delay_count < MOST_DELAYS; places += read, delay_count++) {
        struct delay *delay = &delays[delay_count];
        if (sscanf(places, "%lf %lf %lx%n", &delay->at_s, &delay->length_s, &delay->place, &read) != 3)
            break;
        delay->place += base;
    }
    handle(SIGRTMIN + 5, set_trap, 0);
    handle(SIGTRAP, spin, SA_SIGINFO);
    set_timers();
}
