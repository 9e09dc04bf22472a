/* Functions that clang has prepared to be recorded (-fxray-instrument): each begins and ends with a sled, which is
 * passed over until it is made a call. */
#ifndef CHIMBUKO_SLEDS_H
#define CHIMBUKO_SLEDS_H

#include <stdbool.h>

#include "callsites.h"
#include "layout.h"

/* Find the sleds of what is loaded, and return whether there are any. */
__attribute__((visibility("hidden"))) bool find_sleds(void);

/* Have all functions with sleds recorded. *obstacle becomes the reason where that is not possible. */
__attribute__((visibility("hidden"))) void arm_all_sleds(const char **obstacle);

/* Change the beginnings or the ends of a function; return whether it has such. */
__attribute__((visibility("hidden"))) bool change_sleds(Key function, enum Hook hook, bool is_armed);

#endif
