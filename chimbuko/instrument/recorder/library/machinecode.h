/* Machine code of x86-64, as far as calls of the hooks are found in it. Nothing here writes. */
#ifndef CHIMBUKO_MACHINECODE_H
#define CHIMBUKO_MACHINECODE_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A loaded binary, as dl_iterate_phdr gives it. */
typedef const struct dl_phdr_info Module;

/* Length of the instruction at `code`, of at most `room` bytes; 0 for one that is not known. */
__attribute__((visibility("hidden"))) size_t instruction_length(const uint8_t *code, size_t room);

/* Length of a jump of which one byte was made a return, at `code`; 0 for any other. NULL where there is none. */
extern size_t (*jump_that_was)(const uint8_t *code) __attribute__((visibility("hidden")));

/* Length of an instruction that calls `hook`, directly, by way of the procedure linkage table or of the global
 * offset table, at `code`; 0 for any other. */
__attribute__((visibility("hidden"))) size_t call_length(Module *module, const uint8_t *code, const void *hook);

/* Whether the call at `code` is made for one function only, whose address is the call's first argument: compilers
 * let equal ends of several functions, as they are where these are part of another one, have one call. */
__attribute__((visibility("hidden"))) bool is_for_function(Module *module, const uint8_t *code, uintptr_t function);

/* Find the jumps to `hook` by which the function ends that begins at `function`; return how many of them, at most
 * `most`, are in `jumps`. */
__attribute__((visibility("hidden"))) unsigned find_jumps(Module *module, const uint8_t *function, const void *hook,
                                                          uint8_t **jumps, unsigned most);

enum { MOST_WAITING = 256, MOST_CODE = 1 << 16 };

/* Room to note which places in a function were reached. */
struct places {
    uint8_t seen[MOST_CODE / 8];
    const uint8_t *waiting[MOST_WAITING];
};

/* Whether a call of a function that is at `from` can come to return from another call to `to`. True where its code is
 * not understood. */
__attribute__((visibility("hidden"))) bool has_way(const uint8_t *from, const uint8_t *to, struct places *places);

#endif
