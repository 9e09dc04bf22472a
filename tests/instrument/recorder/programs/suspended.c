/* A call of a function waits on a coroutine's stack while its thread calls that function so often that its call sites
 * are disarmed. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>

static ucontext_t own, coroutine;
static volatile long sink;

#define PLAIN __attribute__((noinline, no_instrument_function))
PLAIN static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

__attribute__((noinline)) void step(int is_waiting)
{
    if (is_waiting)
        swapcontext(&coroutine, &own);
    sink++;
}

__attribute__((noinline)) void late(void) { sink++; }

/* What this calls lies below the frame of a step: if that had not ended, it would seem to be part of it. */
PLAIN static void call_from_below(void)
{
    volatile char room[512];
    room[0] = 0;
    late();
    sink += room[0];
}

__attribute__((noinline)) void body(void)
{
    step(1);
    call_from_below();
}

int main(void)
{
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = malloc(1 << 16);
    coroutine.uc_stack.ss_size = 1 << 16;
    coroutine.uc_link = &own;
    makecontext(&coroutine, body, 0);
    swapcontext(&own, &coroutine);
    for (double end_s = now_s() + 1; now_s() < end_s;)
        for (int number = 0; number < 1000; number++)
            step(0);
    swapcontext(&own, &coroutine);
    puts("done");
    return 0;
}
