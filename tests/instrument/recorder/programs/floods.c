/* Twenty phases of 20 ms of CPU time, each of which calls nothing but a tiny function of its own. */
#include <time.h>

#define TINY(number) __attribute__((noinline)) void tiny##number(long *sum) { ++*sum; }
#define FIVE(tens) TINY(tens##0) TINY(tens##1) TINY(tens##2) TINY(tens##3) TINY(tens##4)
FIVE(0) FIVE(1) FIVE(2) FIVE(3)

#define NAMES(tens) tiny##tens##0, tiny##tens##1, tiny##tens##2, tiny##tens##3, tiny##tens##4
static void (*const tiny[])(long *) = {NAMES(0), NAMES(1), NAMES(2), NAMES(3)};

int main(void)
{
    long sum = 0;
    for (int phase = 0; phase < 20; phase++)
        for (clock_t end = clock() + CLOCKS_PER_SEC / 50; clock() < end;)
            for (int number = 0; number < 10000; number++)
                tiny[phase](&sum);
    return sum == 0;
}
