/* Functions that gcc has prepared to be recorded (-fpatchable-function-entry=7,5): each begins with two bytes of
 * nothing, and has five more before it. */
#ifndef CHIMBUKO_ENTRIES_H
#define CHIMBUKO_ENTRIES_H

#include <stdbool.h>

#include "layout.h"

/* Find what is prepared in all that is loaded, and was not found before; return whether there is any. */
__attribute__((visibility("hidden"))) bool find_entries(void);

/* Have all functions recorded that were found, and were not armed before. *obstacle becomes the reason where that is
 * not possible. */
__attribute__((visibility("hidden"))) void arm_found_entries(const char **obstacle);

/* Have calls of a function recorded, or passed by; return whether it is one of these, and was changed. */
__attribute__((visibility("hidden"))) bool change_entry(Key function, bool is_armed);

#endif
