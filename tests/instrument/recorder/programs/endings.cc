// Calls that end in each way that there is, through functions that gcc prepares; prints what has one right answer.
#include <csetjmp>
#include <cstdio>
#include <execinfo.h>
#include <stdexcept>
#include <ucontext.h>

#define FUNCTION extern "C" __attribute__((noinline))

struct Guard {
    int *count;
    ~Guard() { ++*count; }
};
struct Block {
    long values[6];
};
static int cleaned;
static volatile int sink;
static jmp_buf top;
static ucontext_t home, other;

FUNCTION void deep(int n)
{
    if (n == 0)
        throw std::runtime_error("deep");
    deep(n - 1);
    sink = sink + n;
}
FUNCTION void guarded(int n)
{
    Guard guard{&cleaned};
    deep(n);
    sink = sink + 1;
}
FUNCTION int handled(int n)
{
    try {
        deep(0);
    } catch (std::exception &) {
        return 1;
    }
    return n;
}
FUNCTION int passed_on(int n)
{
    try {
        guarded(n);
    } catch (...) {
        throw;
    }
    return 0;
}
FUNCTION void jumping(int n)
{
    if (n == 0)
        longjmp(top, 1);
    jumping(n - 1);
    sink = sink + n;
}
FUNCTION void interrupted(int n)
{
    sink = sink + n;
    swapcontext(&other, &home);
    sink = sink - n;
}
FUNCTION void coroutine(void)
{
    for (int n = 0; n < 50; n++)
        interrupted(n);
}
FUNCTION int frames(void)
{
    void *found[64];
    return backtrace(found, 64);
}
FUNCTION long double tall(long double value) { return value * 2.5L; }
FUNCTION Block block(int n)
{
    Block made;
    for (int at = 0; at < 6; at++)
        made.values[at] = n + at;
    return made;
}
FUNCTION int many(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j)
{
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j;
}

int main(void)
{
    int caught = 0;
    for (int n = 0; n < 200; n++) {
        try {
            passed_on(n % 20);
        } catch (std::exception &) {
            caught++;
        }
        caught += handled(0);
    }
    for (int n = 0; n < 100; n++)
        if (setjmp(top) == 0)
            jumping(n % 30);
    static char stack[1 << 16];
    getcontext(&other);
    other.uc_stack.ss_sp = stack;
    other.uc_stack.ss_size = sizeof stack;
    other.uc_link = &home;
    makecontext(&other, coroutine, 0);
    for (int n = 0; n < 51; n++)
        swapcontext(&home, &other);
    std::printf("%d %d %d %.2Lf %ld %d %s\n", caught, cleaned, sink, tall(3), block(2).values[5],
                many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10), frames() > 3 ? "whole" : "cut");
    return 0;
}
