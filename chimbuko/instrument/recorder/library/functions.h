/* MPI's functions, as the wrappers number them. */
#ifndef CHIMBUKO_FUNCTIONS_H
#define CHIMBUKO_FUNCTIONS_H

extern __attribute__((visibility("hidden"))) const char *const function_names[];
extern __attribute__((visibility("hidden"))) const unsigned function_count;

#endif
