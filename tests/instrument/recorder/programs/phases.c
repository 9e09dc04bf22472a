/* Functions of which one is tiny and is called far too often, until it becomes slow; in some threads, and recursive.
 * Arguments: threads, ms of the first phase, ms of the second. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define QUIET __attribute__((no_instrument_function))
#define FUNCTION __attribute__((noinline))

static volatile int is_slow;
static long first_ms, second_ms;

QUIET static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * now.tv_sec + 1e-6 * now.tv_nsec;
}

FUNCTION void tick(long *sum)
{
    ++*sum;
    if (is_slow) {
        double end = now_ms() + 2;
        while (now_ms() < end)
            ;
    }
}
FUNCTION long fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
FUNCTION void chunk(long *sum)
{
    for (int number = 0; number < (is_slow ? 5 : 20000); number++)
        tick(sum);
    *sum += fib(12);
}

static void *run(void *unused)
{
    long sum = 0;
    double begin = now_ms();
    while (now_ms() < begin + first_ms)
        chunk(&sum);
    is_slow = 1;
    while (now_ms() < begin + first_ms + second_ms)
        chunk(&sum);
    if (fib(15) != 610)
        puts("wrong");
    return unused;
}

int main(int count, char **words)
{
    pthread_t threads[8];
    int number = count > 3 ? atoi(words[1]) : 1;
    first_ms = count > 3 ? atol(words[2]) : 300;
    second_ms = count > 3 ? atol(words[3]) : 2000;
    for (int at = 1; at < number; at++)
        pthread_create(&threads[at], NULL, run, NULL);
    run(NULL);
    for (int at = 1; at < number; at++)
        pthread_join(threads[at], NULL);
    return 0;
}
