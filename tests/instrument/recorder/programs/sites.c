/* Eight threads that compute what has one right answer, by functions of each kind of ending, while the places at
 * which they call the hooks are changed. Arguments: rounds, seed. Prints how many places were changed; whether the
 * hooks are silent when all are disarmed; and whether they are complete when all are armed again. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define QUIET __attribute__((no_instrument_function))
#define FUNCTION __attribute__((noinline))

extern unsigned churn(unsigned, unsigned);
extern void change_all(int);
extern unsigned long called(int);

static _Atomic int is_over;
static _Atomic unsigned long wrong, rounds_done;

struct sum {
    unsigned long value;
    double real;
};

FUNCTION void add(struct sum *sum, unsigned long value) { sum->value += value; }
FUNCTION void real(struct sum *sum, double value) { sum->real = sum->real * 0.5 + value; }
FUNCTION unsigned long twice(unsigned long value) { return 2 * value; }
FUNCTION unsigned long fib(unsigned n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static inline unsigned long part(unsigned long value) { return value % 7 == 0 ? twice(value) : value + 1; }
FUNCTION void step(struct sum *sum, unsigned n)
{
    if (n % 3 == 0) {
        add(sum, part(n));
        return;
    }
    real(sum, n);
    if (n % 5 == 0)
        add(sum, twice(n));
    else
        add(sum, fib(n % 8));
}
FUNCTION unsigned long six(unsigned long a, unsigned long b, unsigned long c, unsigned long d, unsigned long e,
                           unsigned long f, unsigned long g, unsigned long h)
{
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * twice(h);
}
FUNCTION unsigned long work(void)
{
    struct sum sum = {1, 1.0};
    for (unsigned n = 0; n < 200; n++)
        step(&sum, n);
    return sum.value + (unsigned long)sum.real + six(1, 2, 3, 4, 5, 6, 7, 8);
}

QUIET static void *run(void *right)
{
    while (!is_over) {
        if (work() != *(unsigned long *)right)
            wrong++;
        rounds_done++;
    }
    return NULL;
}

QUIET int main(int count, char **words)
{
    unsigned long right = work();
    pthread_t threads[8];
    for (int number = 0; number < 8; number++)
        pthread_create(&threads[number], NULL, run, &right);
    unsigned changed = count > 2 ? churn((unsigned)atol(words[1]), (unsigned)atol(words[2])) : 0;
    is_over = 1;
    for (int number = 0; number < 8; number++)
        pthread_join(threads[number], NULL);
    change_all(1);
    unsigned long before[] = {called(0), called(1)};
    wrong += work() != right;
    unsigned long armed[] = {called(0) - before[0], called(1) - before[1]};
    change_all(0);
    wrong += work() != right;
    unsigned long disarmed[] = {called(0) - before[0] - armed[0], called(1) - before[1] - armed[1]};
    printf("%u changed, %lu wrong, armed %lu %lu, disarmed %lu %lu, %lu done\n", changed, wrong, armed[0], armed[1],
           disarmed[0], disarmed[1], rounds_done);
    return wrong != 0;
}
