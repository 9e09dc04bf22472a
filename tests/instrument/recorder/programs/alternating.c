/* A function that calls a short one 200 times. In turns it is called seldom, so that the short one is recorded, and all
 * the time, so that a small budget leaves it out. At the end it has a delay of its own.
 * Arguments: turns, ms of each busy one, a third of the others', and ms of the delay. */
#include <stdlib.h>
#include <time.h>

#define QUIET __attribute__((no_instrument_function))
#define FUNCTION __attribute__((noinline))

QUIET static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e6 * now.tv_sec + 1e-3 * now.tv_nsec;
}

QUIET static void pause_us(double us)
{
    struct timespec duration = {(time_t)(us / 1e6), (long)(1e3 * (us - 1e6 * (long)(us / 1e6)))};
    nanosleep(&duration, NULL);
}

FUNCTION void part(void)
{
    for (double end = now_us() + 20; now_us() < end;)
        ;
}

FUNCTION void chunk(double delay_us)
{
    for (int number = 0; number < 200; number++)
        part();
    for (double end = now_us() + 200 + delay_us; now_us() < end;)
        ;
}

int main(int count, char **words)
{
    int turns = count > 1 ? atoi(words[1]) : 4;
    double turn_us = 1e3 * (count > 2 ? atof(words[2]) : 400);
    double delay_us = 1e3 * (count > 3 ? atof(words[3]) : 0);
    for (int turn = 0; turn < turns; turn++)
        for (double end = now_us() + (turn % 2 ? 1 : 3) * turn_us; now_us() < end;) {
            chunk(0);
            if (turn % 2 == 0)
                pause_us(60000);
        }
    for (int number = 0; number < 20; number++)
        chunk(number == 10 ? delay_us : 0);
    return 0;
}
