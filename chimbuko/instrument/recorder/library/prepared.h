/* Calls of the recorder from the code of functions that a compiler has prepared: their registers stay what they are, and
 * what is recorded has the frame of the function, not that of the recorder below it. */
#ifndef CHIMBUKO_PREPARED_H
#define CHIMBUKO_PREPARED_H

#include "callers.h"
#include "recorder.h"

/* The C library, which threads that begin and looks call, uses vectors, and ends with their upper parts empty. Eight
 * vectors of arguments are kept as wide as the program has them, at the offset VECTORS of the stack, where in EAX stands
 * how wide. */
#define VECTORS "128"
#define KEEP_VECTORS "call chimbuko_keep_vectors\n mov %eax, 72(%rsp)\n"
#define GIVE_VECTORS "mov 72(%rsp), %eax\n call chimbuko_give_vectors\n"
/* Room for them and for other registers, on the stack; only offsets from 72 on are taken. */
#define TAKE_ROOM                                                                                             \
    ".cfi_startproc\n push %rbp\n .cfi_def_cfa_offset 16\n .cfi_offset %rbp, -16\n"                           \
    "mov %rsp, %rbp\n .cfi_def_cfa_register %rbp\n sub $640, %rsp\n and $-64, %rsp\n"

/* Registers of arguments and of results, of the frame of an enclosing function, and those that are free for us. */
#define BEGIN_TRAMPOLINE(name)                                                                                \
    ".type " name ", @function\n" name ":\n" TAKE_ROOM                                                        \
    "mov %rdi, (%rsp)\n mov %rsi, 8(%rsp)\n mov %rdx, 16(%rsp)\n mov %rcx, 24(%rsp)\n"                        \
    "mov %r8, 32(%rsp)\n mov %r9, 40(%rsp)\n mov %rax, 48(%rsp)\n mov %r10, 56(%rsp)\n mov %r11, 64(%rsp)\n"  \
    KEEP_VECTORS

#define END_TRAMPOLINE(name, last)                                                                            \
    GIVE_VECTORS                                                                                              \
    "mov (%rsp), %rdi\n mov 8(%rsp), %rsi\n mov 16(%rsp), %rdx\n mov 24(%rsp), %rcx\n"                        \
    "mov 32(%rsp), %r8\n mov 40(%rsp), %r9\n mov 48(%rsp), %rax\n mov 56(%rsp), %r10\n mov 64(%rsp), %r11\n"  \
    "leave\n .cfi_def_cfa %rsp, 8\n " last ".cfi_endproc\n .size " name ", .-" name "\n"

/* To return otherwise than a call is expected to keeps the processor's forecast of those around it. */
#define JUMP_BACK "pop %r11\n .cfi_adjust_cfa_offset -8\n .cfi_register %rip, %r11\n jmp *%r11\n"

/* Frame of the function whose return address lies at a place, as if it called us itself where it begins. A function
 * that it calls has its frame below that, however small its own is. */
static inline uintptr_t frame_at(const uintptr_t *slot) { return (uintptr_t)slot - 16; }

/* Count a call that is left out, if it is one. */
static inline bool is_prepared_call_passed(Key key, uintptr_t frame)
{
    const struct function *known = &functions[slot_of(key)];
    bool is_it = LIKELY(is_passed(known, key, frame));
    if (is_it)
        self.ring->left_out[known->row]++;
    return is_it;
}

static inline void enter_prepared(Key key, uintptr_t site, uintptr_t frame, uintptr_t from)
{
    if (UNLIKELY(self.callers > 0))
        end_callers();
    enter_as(key, site, false, frame, from);
}

#endif
