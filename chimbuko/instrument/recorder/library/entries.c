/* To arm a function is to make its first two bytes a jump back to the five before it, in which stands a call of ours;
 * that returns behind the two. A thread may stand between them, where it finds the second byte of the jump, which is an
 * instruction of its own that changes the carry flag, and nothing that a function expects.
 *
 * Where a call of it ends is told by the address to which it returns: in its place stands that of one of our stubs, of
 * which each belongs to one place and one function. So nothing has to be remembered for the program to go on, whatever
 * stack, thread or process a call ends on. To the unwinder a stub is a frame of no size, whose own return address is
 * found by that of the stub: so exceptions pass, and stacks are whole. */
#define _GNU_SOURCE
#include "entries.h"

#if defined(__x86_64__)

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "binaries.h"
#include "prepared.h"

enum { NOTHING = 0x90, CALL = 0xe8, JUMP = 0xeb, BEFORE = 5, MARK_BYTES = 4, MOST_ENTRIES = 1 << 20 };
#define MARK "\xf3\x0f\x1e\xfa" /* endbr64, with which a function may begin */

struct entry {
    Key function;
    uint8_t *place;  /* of its two bytes */
    uint8_t *stubs;  /* of its binary */
    bool is_written; /* the call before it */
};

static struct entry *entries;
static uint32_t entry_count;

/* A call that returns to `site`, of one function; of each page of stubs the first one is none. */
struct way_back {
    _Atomic uintptr_t site;
    Key function;
};

enum { STUBS = 32 * 256, OF_PAGE = 256, DESCRIBED_SOON = 1, MOST_TRIED = 64 };
_Static_assert(sizeof(struct way_back) == STUB_BYTES, "a stub and its row lie equally far from the beginnings");
struct way_back chimbuko_ways_back[STUBS] __attribute__((visibility("hidden")));
extern const char chimbuko_stubs[] __attribute__((visibility("hidden")));
extern char chimbuko_call_begins[] __attribute__((visibility("hidden")));

/* Below the stack nothing of the function stands yet, and handlers of signals leave that much alone. */
#define KEEP "mov %rax, -8(%rsp)\n mov %rcx, -16(%rsp)\n"
#define GIVE "mov -8(%rsp), %rax\n mov -16(%rsp), %rcx\n"

__asm__(".text\n.type chimbuko_call_begins, @function\nchimbuko_call_begins:\n.cfi_startproc\n"
        KEEP "mov (%rsp), %rax\n" ASK_IF_PASSED("-8(%rsp)", "0f") COUNT_LEFT_OUT GIVE
        "pop %r11\n .cfi_remember_state\n .cfi_adjust_cfa_offset -8\n .cfi_register %rip, %r11\n"
        "cmpl $0xfa1e0ff3, (%r11)\n je 1f\n add $2, %r11\n jmp *%r11\n1: add $6, %r11\n jmp *%r11\n"
        ".cfi_restore_state\n0: " GIVE "jmp chimbuko_call_is_seen\n"
        ".cfi_endproc\n.size chimbuko_call_begins, .-chimbuko_call_begins\n"

        BEGIN_TRAMPOLINE("chimbuko_call_is_seen") "lea 8(%rbp), %rdi\n call chimbuko_begin_call\n"
        END_TRAMPOLINE("chimbuko_call_is_seen", JUMP_BACK)

        /* A function has returned to a stub, which has pushed where its row lies; the result stays what it is. */
        ".type chimbuko_call_ends, @function\nchimbuko_call_ends:\n"
        TAKE_ROOM "mov %rax, (%rsp)\n mov %rdx, 8(%rsp)\n" KEEP_VECTORS
        "lea chimbuko_ways_back(%rip), %rdi\n add 8(%rbp), %rdi\n mov (%rdi), %r11\n mov %r11, 8(%rbp)\n"
        "lea 8(%rbp), %rsi\n call chimbuko_end_call\n"
        GIVE_VECTORS "mov (%rsp), %rax\n mov 8(%rsp), %rdx\n"
        "leave\n .cfi_def_cfa %rsp, 8\n " JUMP_BACK ".cfi_endproc\n .size chimbuko_call_ends, .-chimbuko_call_ends\n"

        /* Each page begins with the distance of its rows. The unwinder takes what it finds in the place of the return
         * address, follows that to the row, and takes one off, as a frame of this kind is not one that has called. */
        ".balign 4096\n.type chimbuko_stubs, @object\nchimbuko_stubs:\n"
        ".cfi_startproc\n .cfi_signal_frame\n .cfi_def_cfa %rsp, 0\n"
        ".cfi_escape 0x16, 0x10, 23, 0x38, 0x1c, 0x06, 0x12, 0x0d, 0x00, 0xf0, 0xff, 0xff, 0x1a,"
        " 0x12, 0x94, 0x04, 0x22, 0x16, 0x0a, 0xff, 0x0f, 0x1a, 0x22, 0x06, 0x31, 0x1c\n"
        ".set page, 0\n.rept 32\n .long chimbuko_ways_back + page * 4096 - .\n .balign 16, 0xcc\n"
        ".set stub, page * 4096 + 16\n .rept 255\n .byte 0x68\n .long stub\n jmp chimbuko_call_ends\n .balign 16, 0xcc\n"
        ".set stub, stub + 16\n .endr\n .set page, page + 1\n.endr\n"
        ".cfi_endproc\n .size chimbuko_stubs, .-chimbuko_stubs\n");

/* What a return address of ours stands for; NULL for another one. */
static struct way_back *way_of(uintptr_t address)
{
    uintptr_t offset = address - (uintptr_t)chimbuko_stubs;
    return offset < STUBS * STUB_BYTES ? &chimbuko_ways_back[offset / STUB_BYTES] : NULL;
}

/* Address of the stub for calls of a function from a place; 0 where there is no room for one. */
static uintptr_t stub_for(uintptr_t site, Key function)
{
    uint64_t mixed = (site ^ function << 24) * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t slot = (uint32_t)(mixed >> 51);
    for (int tried = 0; tried < MOST_TRIED; tried++, slot = (slot + 1) % STUBS) {
        struct way_back *way = &chimbuko_ways_back[slot];
        uintptr_t found = atomic_load_explicit(&way->site, memory_order_acquire);
        if (slot % OF_PAGE == 0)
            continue;
        if (found == 0 && atomic_compare_exchange_strong(&way->site, &found, DESCRIBED_SOON)) {
            way->function = function;
            atomic_store_explicit(&way->site, found = site, memory_order_release);
        }
        if (found == site && way->function == function)
            return (uintptr_t)chimbuko_stubs + slot * STUB_BYTES;
    }
    return 0;
}

static bool has_mark(const uint8_t *function) { return memcmp(function, MARK, MARK_BYTES) == 0; }

/* `found` has where we were called from, which is where a function begins, and where it is to return to. */
__attribute__((visibility("hidden"))) void chimbuko_begin_call(uintptr_t found[2])
{
    Key key = found[0];
    uintptr_t *slot = &found[1], frame = frame_at(slot);
    found[0] += has_mark((const uint8_t *)key) ? MARK_BYTES + 2 : 2;
    /* Another function of ours has ended with a jump to this one. */
    const struct way_back *ended = way_of(*slot);
    if (ended != NULL) {
        *slot = ended->site;
        leave_as(ended->function, *slot, false, frame);
    }
    uintptr_t site = *slot, stub = stub_for(site, key);
    if (UNLIKELY(stub == 0)) {
        if (acquire_for(key, frame, found[0])) {
            count_left_out(function_of(key));
            release();
        }
        return;
    }
    *slot = stub;
    enter_prepared(key, site, frame, found[0]);
}

__attribute__((visibility("hidden"))) void chimbuko_end_call(const struct way_back *way, const uintptr_t *slot)
{
    leave_as(way->function, way->site, false, frame_at(slot));
}

/* Note the functions of a segment whose bytes are those of the compiler, and can be changed in one piece. */
static void note_entries(const struct segment *segment)
{
    static const uint8_t nothing[] = {NOTHING, NOTHING, NOTHING, NOTHING, NOTHING};
    const uintptr_t *places = segment->section;
    size_t count = segment->section_bytes / sizeof *places;
    const void *target = chimbuko_call_begins;
    for (uint32_t number = 0; number < entry_count; number++)
        if (entries[number].function - segment->low < segment->end - segment->low)
            return;
    uint8_t *stubs = make_stubs(segment->low, &target, 1);
    struct entry *grown = stubs == NULL ? NULL : realloc(entries, (entry_count + count) * sizeof *entries);
    if (grown == NULL)
        return;
    entries = grown;
    for (size_t number = 0; number < count && entry_count < MOST_ENTRIES; number++) {
        if (places[number] < segment->low || places[number] + BEFORE + MARK_BYTES + 2 > segment->end)
            continue;
        uint8_t *before = (uint8_t *)places[number], *function = before + BEFORE;
        uint8_t *place = function + (has_mark(function) ? MARK_BYTES : 0);
        bool is_as_compiled = memcmp(before, nothing, BEFORE) == 0 &&
                              (memcmp(place, nothing, 2) == 0 || memcmp(place, "\x66\x90", 2) == 0);
        if (is_as_compiled && (uintptr_t)place % 8 != 7)
            entries[entry_count++] = (struct entry){(Key)(uintptr_t)function, place, stubs, false};
    }
}

static int compare_entries(const void *one, const void *other)
{
    const struct entry *a = one, *b = other;
    return (a->function > b->function) - (a->function < b->function);
}

bool find_entries(void)
{
    uint32_t before = entry_count;
    for_segments_with("__patchable_function_entries", note_entries);
    if (entry_count > before)
        qsort(entries, entry_count, sizeof *entries, compare_entries);
    return entry_count > before || is_code_refused;
}

/* The call before a function. */
static void make_call(const struct entry *entry, uint8_t call[BEFORE])
{
    int32_t distance = (int32_t)(entry->stubs - (uint8_t *)entry->function);
    call[0] = CALL;
    memcpy(call + 1, &distance, sizeof distance);
}

/* Return false where it is so already, or where somebody else has changed it meanwhile, as a debugger has, or a library
 * that lies there now. */
static bool write_entry(const struct entry *entry, bool is_armed)
{
    uint8_t call[BEFORE];
    make_call(entry, call);
    if (memcmp((uint8_t *)entry->function - BEFORE, call, BEFORE) != 0)
        return false;
    uint8_t back = (uint8_t)((uint8_t *)entry->function - BEFORE - (entry->place + 2));
    uint16_t jump = (uint16_t)(JUMP | back << 8), passed = NOTHING | NOTHING << 8, found;
    memcpy(&found, entry->place, sizeof found);
    if (is_armed == (found == jump))
        return false;
    if (found != jump && found != passed && memcmp(&found, "\x66\x90", 2) != 0)
        return false;
    return atomic_compare_exchange_strong((_Atomic uint16_t *)entry->place, &found, is_armed ? jump : passed);
}

void arm_found_entries(const char **obstacle)
{
    enum { RUN_BYTES = 1 << 16 };
    if (*obstacle == NULL && is_code_refused)
        *obstacle = CODE_IS_REFUSED;
    for (uint32_t first = 0, next; first < entry_count && *obstacle == NULL; first = next) {
        for (next = first + 1; next < entry_count; next++)
            if (entries[next].stubs != entries[first].stubs ||
                entries[next].function - entries[first].function > RUN_BYTES)
                break;
        uintptr_t low = entries[first].function - BEFORE, end = (uintptr_t)entries[next - 1].place + 2;
        if (!protect_code(low, end, PROT_READ | PROT_WRITE | PROT_EXEC)) {
            *obstacle = CODE_IS_FIXED;
            return;
        }
        for (uint32_t number = first; number < next; number++)
            if (!entries[number].is_written) {
                make_call(&entries[number], (uint8_t *)entries[number].function - BEFORE);
                entries[number].is_written = true;
                write_entry(&entries[number], true);
            }
        protect_code(low, end, PROT_READ | PROT_EXEC);
    }
    show_code();
}

struct change_of_entry {
    const struct entry *entry;
    bool is_armed, is_changed;
};

static void change_held(void *data)
{
    struct change_of_entry *change = data;
    uintptr_t low = change->entry->function - BEFORE, end = (uintptr_t)change->entry->place + 2;
    if (!protect_code(low, end, PROT_READ | PROT_WRITE | PROT_EXEC))
        return;
    change->is_changed = write_entry(change->entry, change->is_armed);
    protect_code(low, end, PROT_READ | PROT_EXEC);
    show_code();
}

bool change_entry(Key function, bool is_armed)
{
    struct entry sought = {.function = function};
    struct change_of_entry change = {.is_armed = is_armed};
    if (entry_count > 0)
        change.entry = bsearch(&sought, entries, entry_count, sizeof *entries, compare_entries);
    if (change.entry != NULL && change.entry->is_written)
        with_binaries_held(change_held, &change);
    return change.is_changed;
}

#else

bool find_entries(void) { return false; }

void arm_found_entries(const char **obstacle) { (void)obstacle; }

bool change_entry(Key function, bool is_armed)
{
    (void)function, (void)is_armed;
    return false;
}

#endif
