/* Two functions that are part of a third one, where compilers let their ends have one call of the hook. Prints how
 * often the hooks were called for the second one, which comes after the first one was disarmed. */
#include <stdio.h>

#define PART static inline __attribute__((always_inline))

extern void disarm_function(void *);
extern unsigned long called_of(int, void *);

static volatile long x, y;

PART void first(long n) { x += n; }
PART void second(long n) { y -= n; }

__attribute__((noinline)) void pick(int which, long n)
{
    if (which)
        first(n);
    else
        second(n);
    y++;
}

__attribute__((no_instrument_function)) int main(void)
{
    for (long n = 0; n < 1000; n++)
        pick(1, n);
    disarm_function((void *)first);
    unsigned long entries = called_of(0, (void *)second), exits = called_of(1, (void *)second);
    for (long n = 0; n < 1000; n++)
        pick(n & 1, n);
    printf("%lu %lu\n", called_of(0, (void *)second) - entries, called_of(1, (void *)second) - exits);
    return 0;
}
