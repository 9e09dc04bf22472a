/* More calls than there is room for, of functions that are called too rarely to be left out by rule: the first call of
 * `step` has all that it called, the second has not. */
#define WORK(n) \
    __attribute__((noinline)) void work##n(void) { __asm__ volatile("" ::: "memory"); }
WORK(0) WORK(1) WORK(2) WORK(3) WORK(4) WORK(5) WORK(6) WORK(7)

__attribute__((noinline)) void step(int calls)
{
    void (*const works[])(void) = {work0, work1, work2, work3, work4, work5, work6, work7};
    while (calls-- > 0)
        works[calls % 8]();
}

int main(void)
{
    step(10);
    step(40000);
    return 0;
}
