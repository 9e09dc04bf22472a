/* Runs on several stacks of one thread: coroutines, one of which is given up, and a signal's handler with its own. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#define PLAIN __attribute__((no_instrument_function))
enum { STACK_BYTES = 1 << 14, ROUNDS = 50, COROUTINES = 3 };
static __thread ucontext_t home, contexts[COROUTINES];
static __thread char *stacks;
static sigjmp_buf top;
static volatile long sink;

PLAIN static void pause_ms(long ms) { nanosleep(&(struct timespec){0, ms * 1000000}, NULL); }

void leaf(void) { sink++; }

void part(int number)
{
    leaf();
    swapcontext(&contexts[number], &home);
    leaf();
}

void deep(int left)
{
    volatile char used[200] = {(char)left};
    if (left > 0)
        deep(left - 1);
    sink += used[0];
}

void body(int number)
{
    for (;;) {
        part(number);
        deep(20);
        swapcontext(&contexts[number], &home);
    }
}

void abandoned(int number)
{
    leaf();
    swapcontext(&contexts[number], &home);
}

PLAIN static void make(int number, void (*function)(int))
{
    getcontext(&contexts[number]);
    contexts[number].uc_stack.ss_sp = stacks + number * STACK_BYTES;
    contexts[number].uc_stack.ss_size = STACK_BYTES;
    contexts[number].uc_link = &home;
    makecontext(&contexts[number], (void (*)(void))function, 1, number);
}

void scheduler(void)
{
    for (int round = 0; round < 2; round++)
        for (int number = 0; number < COROUTINES; number++)
            swapcontext(&home, &contexts[number]);
}

PLAIN static void coroutines(void)
{
    stacks = malloc(COROUTINES * STACK_BYTES);
    for (int number = 0; number < COROUTINES; number++)
        make(number, body);
    for (int round = 0; round < ROUNDS; round++)
        scheduler();
    free(stacks);
}

PLAIN static void *of_thread(void *unused)
{
    coroutines();
    return unused;
}

/* Rings of threads that have ended are used again. */
PLAIN static void threads(void)
{
    for (int round = 0; round < 2; round++) {
        pthread_t two[2];
        for (int number = 0; number < 2; number++)
            pthread_create(&two[number], NULL, of_thread, NULL);
        for (int number = 0; number < 2; number++)
            pthread_join(two[number], NULL);
    }
}

static void generators(void)
{
    stacks = malloc(COROUTINES * STACK_BYTES);
    for (int round = 0; round < ROUNDS; round++) {
        make(0, abandoned);
        swapcontext(&home, &contexts[0]);
        pause_ms(2);
    }
}

void on_signal(int number)
{
    leaf();
    if (number == SIGUSR2)
        siglongjmp(top, 1);
}

__attribute__((noinline)) void interrupted(int number) { raise(number); }

static void handlers(void)
{
    stack_t own = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    sigaltstack(&own, NULL);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    for (volatile int round = 0; round < ROUNDS; round++) {
        interrupted(SIGUSR1);
        if (sigsetjmp(top, 1) == 0)
            interrupted(SIGUSR2);
        leaf();
    }
}

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "coroutines";
    if (strcmp(what, "handlers") == 0)
        handlers();
    else if (strcmp(what, "threads") == 0)
        threads();
    else if (strcmp(what, "generators") == 0)
        generators();
    else
        coroutines();
    return 0;
}
