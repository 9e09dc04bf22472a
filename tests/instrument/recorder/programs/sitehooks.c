/* Hooks that note where they are called, and a thread that arms and disarms these places at random. */
#include "callsites.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define HOOK __attribute__((visibility("default")))

enum { ROWS = 64 };
static _Atomic(void *) functions[ROWS];
static _Atomic unsigned long calls[2];

static uint32_t row_of(void *function)
{
    for (uint32_t row = 0;; row++) {
        void *found = NULL;
        if (functions[row] == function || atomic_compare_exchange_strong(&functions[row], &found, function))
            return row;
        if (found == function)
            return row;
    }
}

HOOK void __cyg_profile_func_enter(void *function, void *caller)
{
    calls[0]++;
    uintptr_t back = (uintptr_t)__builtin_return_address(0);
    note_site(ENTRY_HOOK, row_of(function), (uintptr_t)function, back, (uintptr_t)caller);
}

HOOK void __cyg_profile_func_exit(void *function, void *caller)
{
    calls[1]++;
    uintptr_t back = (uintptr_t)__builtin_return_address(0);
    note_site(EXIT_HOOK, row_of(function), (uintptr_t)function, back, (uintptr_t)caller);
}

HOOK unsigned long called(int hook) { return calls[hook]; }

/* Change all places, or those of random functions; the number of places that were changed. */
HOOK unsigned change_all(int is_armed)
{
    static bool rows[ROWS];
    const char *obstacle = NULL;
    for (unsigned row = 0; row < ROWS; row++)
        rows[row] = true;
    unsigned changed = is_armed ? change_sites(EXIT_HOOK, true, rows, &obstacle) : 0;
    changed += change_sites(ENTRY_HOOK, is_armed, rows, &obstacle);
    changed += is_armed ? 0 : change_sites(EXIT_HOOK, false, rows, &obstacle);
    if (obstacle != NULL)
        fprintf(stderr, "obstacle: %s\n", obstacle);
    return changed;
}

HOOK unsigned churn(unsigned rounds, unsigned seed)
{
    static bool rows[ROWS];
    const char *obstacle = NULL;
    unsigned changed = 0;
    while (rounds-- > 0) {
        for (unsigned row = 0; row < ROWS; row++)
            rows[row] = rand_r(&seed) & 1;
        changed += change_sites(rand_r(&seed) & 1, rand_r(&seed) & 1, rows, &obstacle);
    }
    return changed;
}
