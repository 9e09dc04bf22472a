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

/* What is_passed() asks, of the function whose key is in RAX. RCX and R11 change; then R11 has its row, and RCX the
 * ring. The trampolines cost seven times as much, most of it for the question which vectors are in use. */
#define ASK_IF_PASSED(frame, otherwise)                                                                       \
    "movabs $0x9e3779b97f4a7c15, %rcx\n imul %rax, %rcx\n shr $51, %rcx\n shl $5, %rcx\n"                     \
    "lea functions(%rip), %r11\n add %rcx, %r11\n"                                                            \
    "cmp %rax, (%r11)\n jne " otherwise "\n cmpl $1, 8(%r11)\n jne " otherwise "\n"                           \
    "mov self@gottpoff(%rip), %rcx\n lea " frame ", %rax\n sub %fs:88(%rcx), %rax\n"                          \
    "cmp %fs:96(%rcx), %rax\n jae " otherwise "\n cmpl $0, %fs:44(%rcx)\n jne " otherwise "\n"                \
    "mov 12(%r11), %r11d\n mov %fs:(%rcx), %rcx\n"
#define COUNT_LEFT_OUT "incq 192(%rcx,%r11,8)\n"
#define IS_AT(of, field, at) _Static_assert(offsetof(struct of, field) == (at), "the assembler's code says so")
IS_AT(function, key, 0);
IS_AT(function, state, 8);
IS_AT(function, row, 12);
IS_AT(thread, ring, 0);
IS_AT(thread, skipped, 44);
IS_AT(thread, stack_low, 88);
IS_AT(thread, stack_bytes, 96);
IS_AT(ring, left_out, 192);
_Static_assert(sizeof(struct function) == 1 << 5 && (int)FUNCTION_SLOTS == 1 << (64 - 51) && PASSED == 1, "as above");

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
