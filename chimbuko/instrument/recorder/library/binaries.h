/* Binaries of the program, and their code, which is changed while it runs. */
#ifndef CHIMBUKO_BINARIES_H
#define CHIMBUKO_BINARIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CODE_IS_FIXED "the system does not let a program change its code"
#define CODE_IS_REFUSED "the system does not let a program make code"
enum { STUB_BYTES = 16 };

/* A segment of code, and a section of its binary. */
struct segment {
    uintptr_t low, end;
    const void *section;
    size_t section_bytes;
};

/* Call `note` with each segment of code that is loaded whose binary has a section; the system's libraries have none. */
__attribute__((visibility("hidden"))) void for_segments_with(const char *section,
                                                             void (*note)(const struct segment *segment));

/* Call something, while nothing is loaded or unloaded. */
__attribute__((visibility("hidden"))) void with_binaries_held(void (*act)(void *data), void *data);

/* Number of binaries that were loaded up to now. */
__attribute__((visibility("hidden"))) unsigned long long count_loaded(void);

/* Whether a page of code was refused by the system. */
extern bool is_code_refused __attribute__((visibility("hidden")));

/* A page near a binary with a jump to each of some targets, STUB_BYTES apart; NULL where there is no room for one. */
__attribute__((visibility("hidden"))) uint8_t *make_stubs(uintptr_t lowest, const void *const *targets, unsigned count);

/* Change the protection of the pages of some code; false where the system refuses. */
__attribute__((visibility("hidden"))) bool protect_code(uintptr_t low, uintptr_t end, int protection);

/* Have all cores see a change of code. */
__attribute__((visibility("hidden"))) void show_code(void);

#endif
