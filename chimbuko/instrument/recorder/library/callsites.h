/* Places in the program's code that call the hooks: they are made to call nothing, and to call again. Of x86-64
 * only; elsewhere no place is known. One thread at a time may change them, and never a signal's handler. */
#ifndef CHIMBUKO_CALLSITES_H
#define CHIMBUKO_CALLSITES_H

#include <stdbool.h>
#include <stdint.h>

#include "layout.h"

enum Hook { ENTRY_HOOK, EXIT_HOOK };

/* Note that a hook was called for the function of a row, and returns to `return_address`. The hook of an exit was
 * jumped to where that is the address to which the function itself returns, `caller`. */
__attribute__((visibility("hidden"))) void note_site(enum Hook hook, uint32_t row, uintptr_t function,
                                                     uintptr_t return_address, uintptr_t caller);

/* What is in the way of changes of the program's code, in words; NULL for nothing. */
__attribute__((visibility("hidden"))) const char *obstacle_to_changes(void);

/* Disarm, or arm again, all known places that call a hook for functions whose rows, of FUNCTIONS, are marked; marked
 * stay those of which some place was changed. Return how many were; *obstacle says in words what is in the way, if
 * anything is. */
__attribute__((visibility("hidden"))) unsigned change_sites(enum Hook hook, bool is_armed, bool *rows,
                                                            const char **obstacle);

#endif
