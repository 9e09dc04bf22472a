/* Leaves calls by longjmp: out of a recursion that is too deep to be recorded, or from a signal's handler, at any place. */
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>

enum { STEPS = 300, DEEP = 1500 };
static sigjmp_buf top;
static volatile long sink;

void step(void) { sink++; }

void down(int left)
{
    sink += left;
    if (left == 0)
        siglongjmp(top, 1);
    down(left - 1);
    sink -= left;
}

void piece(void)
{
    for (int round = 0; round < 250; round++)
        sink += round;
}

void limited(void)
{
    for (;;)
        piece();
}

static void __attribute__((no_instrument_function)) on_alarm(int number)
{
    (void)number;
    siglongjmp(top, 1);
}

int main(int count, char **words)
{
    int is_deep = count > 1 && strcmp(words[1], "deep") == 0;
    struct itimerval soon = {{0, 0}, {0, 200}};
    signal(SIGALRM, on_alarm);
    for (volatile int number = 0; number < STEPS; number++) {
        if (sigsetjmp(top, 1) == 0) {
            if (is_deep && number % 100 == 50)
                down(DEEP);
            else if (!is_deep) {
                setitimer(ITIMER_REAL, &soon, 0);
                limited();
            }
        }
        step();
    }
    return 0;
}
