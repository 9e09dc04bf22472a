/* A function that is far too small, and is called far too often. */
#include <stdio.h>
#include <stdlib.h>

static volatile long sum;

__attribute__((noinline)) void tick(void) { sum++; }

__attribute__((noinline)) void chunk(long number)
{
    while (number-- > 0)
        tick();
}

int main(int count, char **words)
{
    long chunks = count > 1 ? atol(words[1]) : 100;
    for (long number = 0; number < chunks; number++)
        chunk(100000);
    printf("%ld\n", sum);
    return 0;
}
