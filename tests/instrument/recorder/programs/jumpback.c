/* While a call of a function is open, that function is left out, and what it called is left by a jump. */
#include <setjmp.h>
#include <stdio.h>
#include <time.h>

static jmp_buf place;
static volatile long sink;

#define PLAIN __attribute__((noinline, no_instrument_function))
PLAIN static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

__attribute__((noinline)) void jump(void) { longjmp(place, 1); }

__attribute__((noinline)) void step(int is_outer)
{
    sink++;
    if (!is_outer)
        return;
    for (double end_s = now_s() + 0.5; now_s() < end_s;)
        for (int number = 0; number < 1000; number++)
            step(0);
    if (setjmp(place) == 0)
        jump();
}

__attribute__((noinline)) void late(void) { sink++; }

/* What this calls lies below the frames of those before: if they had not ended, it would seem to be part of them. */
PLAIN static void call_from_below(void)
{
    volatile char room[4096];
    room[0] = 0;
    late();
    sink += room[0];
}

int main(void)
{
    step(1);
    call_from_below();
    puts("done");
    return 0;
}
