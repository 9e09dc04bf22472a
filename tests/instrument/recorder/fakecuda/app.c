/* A program that computes on a GPU which is none, see fakecuda.c. One step of it is slow on the GPU, and one is not. */
#include "fakecuda.h"

#include <stdlib.h>

#define MS UINT64_C(1000000)

int main(int count, char **words)
{
    int steps = count > 1 ? atoi(words[1]) : 20, slow = count > 2 ? atoi(words[2]) : -1;
    fake_begin();
    for (int step = 0; step < steps; step++) {
        fake_copy(0, MS / 2);
        fake_set(1, MS / 10);
        fake_launch(0, "_ZN4heat5relaxIfEEvPT_i", 64, step == slow ? 300 * MS : MS);
        /* A kernel of another size takes longer. */
        fake_launch(0, "_ZN4heat5relaxIfEEvPT_i", 512, 4 * MS);
        fake_synchronize(0);
    }
    return 0;
}
