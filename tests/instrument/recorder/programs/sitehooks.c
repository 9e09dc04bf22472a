/* Hooks that note where they are called, and a thread that arms and disarms these places at random. */
#include "callsites.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define HOOK __attribute__((visibility("default")))

enum { ROWS = 64 };
static _Atomic(void *) functions[ROWS];
static _Atomic unsigned long calls[2], calls_of[2][ROWS];

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
    calls_of[0][row_of(function)]++;
    uintptr_t back = (uintptr_t)__builtin_return_address(0);
    note_site(ENTRY_HOOK, row_of(function), (uintptr_t)function, back, (uintptr_t)caller);
}

HOOK void __cyg_profile_func_exit(void *function, void *caller)
{
    calls[1]++;
    calls_of[1][row_of(function)]++;
    uintptr_t back = (uintptr_t)__builtin_return_address(0);
    note_site(EXIT_HOOK, row_of(function), (uintptr_t)function, back, (uintptr_t)caller);
}

HOOK unsigned long called(int hook) { return calls[hook]; }

static const char *obstacle;

/* Change the places of all functions, or of about half of them; the number of places that were changed. */
static unsigned change(int hook, bool is_armed, unsigned *seed)
{
    static bool rows[FUNCTIONS];
    for (unsigned row = 0; row < ROWS; row++)
        rows[row] = seed == NULL || rand_r(seed) & 1;
    return change_sites(hook, is_armed, rows, &obstacle);
}

HOOK unsigned long called_of(int hook, void *function) { return calls_of[hook][row_of(function)]; }

HOOK void disarm_function(void *function)
{
    for (int hook = 0; hook < 2; hook++) {
        static bool rows[FUNCTIONS];
        rows[row_of(function)] = true;
        change_sites(hook, false, rows, &obstacle);
    }
}

HOOK void change_all(int is_armed)
{
    change(is_armed, is_armed, NULL);
    change(!is_armed, is_armed, NULL);
    if (obstacle != NULL)
        fprintf(stderr, "obstacle: %s\n", obstacle);
}

HOOK unsigned churn(unsigned rounds, unsigned seed)
{
    unsigned changed = 0;
    while (rounds-- > 0) {
        int hook = rand_r(&seed) & 1, is_armed = rand_r(&seed) & 1;
        changed += change(hook, is_armed, &seed);
    }
    return changed;
}
