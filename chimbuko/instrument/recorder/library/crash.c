/* Handlers of fatal signals: they note in the process's file where it was, and then let the signal take its course. */
#define _GNU_SOURCE
#include "recorder.h"

#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const int watched[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
enum { WATCHED = sizeof watched / sizeof *watched, STACK_BYTES = 1 << 16 };

static struct sigaction before[WATCHED]; /* handlers that ours replaced, and that it calls */
static bool is_ours[WATCHED];
static __thread void *own_stack __attribute__((tls_model("initial-exec")));

static void on_crash(int number, siginfo_t *info, void *context)
{
    int kept = errno;
    struct sigaction next = {.sa_handler = SIG_DFL};
    for (int each = 0; each < WATCHED; each++)
        if (watched[each] == number)
            next = before[each];
    struct crash *crash = process == NULL ? NULL : &process->crash;
    if (crash != NULL && process->pid == (uint32_t)getpid() && atomic_load(&crash->signal) == 0) {
        void *frames[BACKTRACE];
        crash->thread = self.ring == NULL ? -1 : self.ring->thread;
        crash->address = (uint64_t)(uintptr_t)info->si_addr;
        int count = backtrace(frames, BACKTRACE);
        for (int frame = 0; frame < count; frame++)
            crash->backtrace[frame] = (uint64_t)(uintptr_t)frames[frame];
        crash->frames = (uint32_t)(count < 0 ? 0 : count);
        /* Functions that were found on the stack at the last call of MPI may have ended since. */
        if (self.callers > 0 && self.callers == self.depth)
            atomic_store(&self.ring->depth, 0);
        atomic_store(&crash->signal, number);
    }
    errno = kept;
    if ((next.sa_flags & SA_SIGINFO) != 0 && next.sa_sigaction != NULL) {
        next.sa_sigaction(number, info, context);
    } else if (next.sa_handler != SIG_DFL && next.sa_handler != SIG_IGN) {
        next.sa_handler(number);
    } else {
        /* A fault occurs again when this returns; a signal from a process, or from abort(), has to be sent again. */
        signal(number, SIG_DFL);
        if (info->si_code <= 0)
            raise(number);
    }
}

/* Note how this process is about to end, while the calls that led to it are open. */
void note_end(enum End how, int code)
{
    if (process == NULL || self.ring == NULL || atomic_load(&process->ending.how) != 0)
        return;
    struct ending *ending = &process->ending;
    uint32_t first = self.depth > BACKTRACE ? self.depth - BACKTRACE : 0;
    ending->code = code;
    ending->thread = self.ring->thread;
    ending->depth = self.depth - first;
    memcpy(ending->stack, self.ring->stack + first, ending->depth * sizeof *ending->stack);
    atomic_store(&ending->how, how);
}

/* Install the handlers for signals that have none, and, after MPI_Init, before those that MPI has installed (see
 * forget_crashes). */
void watch_crashes(void)
{
    static bool is_loaded;
    if (is_only_counting)
        return;
    if (!is_loaded) {
        /* The first call of backtrace loads a library, which a handler must not do. */
        void *frames[2];
        backtrace(frames, 2);
        is_loaded = true;
    }
    for (int each = 0; each < WATCHED; each++) {
        struct sigaction current, ours = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK};
        if (sigaction(watched[each], NULL, &current) != 0)
            continue;
        bool is_free = (current.sa_flags & SA_SIGINFO) == 0 && current.sa_handler == SIG_DFL;
        if (is_free || is_ours[each]) {
            before[each] = current;
            is_ours[each] = sigaction(watched[each], &ours, NULL) == 0;
        }
    }
}

/* Remove the handlers before MPI_Init, so that it finds those that it would find without us. */
void forget_crashes(void)
{
    for (int each = 0; each < WATCHED; each++) {
        struct sigaction current;
        if (is_ours[each] && sigaction(watched[each], NULL, &current) == 0 && current.sa_sigaction == on_crash)
            sigaction(watched[each], &before[each], NULL);
        else
            is_ours[each] = false;
    }
}

/* Give the thread a stack for its handlers: none can run on a stack that has overflowed. */
void watch_crashes_of_thread(void)
{
    stack_t current, ours = {.ss_size = STACK_BYTES};
    if (is_only_counting || sigaltstack(NULL, &current) != 0 || (current.ss_flags & SS_DISABLE) == 0)
        return;
    ours.ss_sp = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ours.ss_sp != MAP_FAILED && sigaltstack(&ours, NULL) == 0)
        own_stack = ours.ss_sp;
}

void forget_crashes_of_thread(void)
{
    stack_t current, none = {.ss_flags = SS_DISABLE};
    if (own_stack == NULL || sigaltstack(NULL, &current) != 0 || current.ss_sp != own_stack)
        return;
    if (sigaltstack(&none, NULL) == 0)
        munmap(own_stack, STACK_BYTES);
    own_stack = NULL;
}
