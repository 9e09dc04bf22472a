/* A sled has 11 bytes. That at a function's beginning is a jump over its rest, as is that before a jump by which it ends;
 * that at a return is this return and a rest. We write our own code into the rest once, a number of the sled and a call
 * (a jump at the end), and from then on change what stands before it: the two bytes of the jump, which lie in one word,
 * or the one of the return. The calls go to a page near the binary, from which all of memory can be reached. */
#define _GNU_SOURCE
#include "sleds.h"

#include <stdatomic.h>

#if defined(__x86_64__)

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "binaries.h"
#include "prepared.h"

enum { SLED_BYTES = 11, MOST_SLEDS = 1 << 20 };
enum { MAP_VERSION = 2, JUMP_OVER = 0x09eb, NUMBER = 0xba41 /* mov to R10 */, RETURN = 0xc3 };
enum SledKind { BEGINNING, END, LAST_JUMP, BEGINNING_WITH_ARGUMENTS };

/* A row of the compiler's table; addresses count from where they stand. */
struct map_row {
    int64_t place, function;
    uint8_t kind, is_always, version, padding[13];
};

struct sled {
    Key function;
    uint8_t *place;
    uint8_t *stubs; /* of its binary */
    uint8_t kind;
};

extern char chimbuko_sled_begins[], chimbuko_sled_ends[], chimbuko_sled_jumps[];
/* By the numbers of sleds. */
const Key *sled_functions __attribute__((visibility("hidden")));
static struct sled *sleds;
static uint32_t sled_count;

/* The number is in R10. */
#define TRAMPOLINE(name, slot, hook)                                                                          \
    BEGIN_TRAMPOLINE(name)                                                                                    \
    "mov sled_functions(%rip), %rdi\n mov (%rdi,%r10,8), %rdi\n lea " slot "(%rbp), %rsi\n call " hook "\n" \
    END_TRAMPOLINE(name, "ret\n ")

__asm__(".text\n" TRAMPOLINE("chimbuko_sled_begins", "16", "chimbuko_enter_sled")
            TRAMPOLINE("chimbuko_sled_ends", "8", "chimbuko_leave_sled")
                TRAMPOLINE("chimbuko_sled_jumps", "16", "chimbuko_leave_sled"));

/* `slot` is where the address lies to which the function returns. */
__attribute__((visibility("hidden"))) void chimbuko_enter_sled(Key function, const uintptr_t *slot)
{
    if (!is_prepared_call_passed(function, frame_at(slot)))
        enter_prepared(function, *slot, frame_at(slot), function);
}

__attribute__((visibility("hidden"))) void chimbuko_leave_sled(Key function, const uintptr_t *slot)
{
    uintptr_t frame = frame_at(slot);
    const struct function *known = &functions[slot_of(function)];
    if (!is_passed(known, function, frame) || !is_within_innermost(function, frame))
        leave_as(function, *slot, false, frame);
}

static bool is_as_compiled(const struct map_row *row, const uint8_t *place)
{
    if (row->version != MAP_VERSION || row->kind > BEGINNING_WITH_ARGUMENTS || (uintptr_t)place % 2 != 0)
        return false;
    return row->kind == END ? *place == RETURN : place[0] == (JUMP_OVER & 0xff) && place[1] == JUMP_OVER >> 8;
}

static void note_sleds(const struct segment *segment)
{
    const struct map_row *rows = segment->section;
    const void *targets[] = {chimbuko_sled_begins, chimbuko_sled_ends, chimbuko_sled_jumps};
    size_t count = segment->section_bytes / sizeof *rows;
    uint8_t *stubs = make_stubs(segment->low, targets, 3);
    struct sled *grown = stubs == NULL ? NULL : realloc(sleds, (sled_count + count) * sizeof *sleds);
    if (grown == NULL)
        return;
    sleds = grown;
    for (size_t number = 0; number < count && sled_count < MOST_SLEDS; number++) {
        uint8_t *place = (uint8_t *)((uintptr_t)&rows[number].place + (uintptr_t)rows[number].place);
        Key function = (Key)((uintptr_t)&rows[number].function + (uintptr_t)rows[number].function);
        bool is_inside = (uintptr_t)place >= segment->low && (uintptr_t)place + SLED_BYTES <= segment->end;
        if (is_inside && is_as_compiled(&rows[number], place))
            sleds[sled_count++] = (struct sled){function, place, stubs, rows[number].kind};
    }
}

static int compare_sleds(const void *one, const void *other)
{
    const struct sled *a = one, *b = other;
    return a->function != b->function ? (a->function > b->function) - (a->function < b->function)
                                      : (a->place > b->place) - (a->place < b->place);
}

bool find_sleds(void)
{
    for_segments_with("xray_instr_map", note_sleds);
    if (is_code_refused)
        return true;
    Key *keys = sled_count == 0 ? NULL : malloc(sled_count * sizeof *keys);
    if (keys == NULL) {
        sled_count = 0;
        return false;
    }
    qsort(sleds, sled_count, sizeof *sleds, compare_sleds);
    for (uint32_t number = 0; number < sled_count; number++)
        keys[number] = sleds[number].function;
    sled_functions = keys;
    return true;
}

/* Write our code into the rest of a sled, which nothing executes yet. */
static void write_rest(const struct sled *sled, uint32_t number)
{
    unsigned stub = sled->kind == END ? 1 : sled->kind == LAST_JUMP ? 2 : 0;
    int32_t distance = (int32_t)(sled->stubs + stub * STUB_BYTES - (sled->place + SLED_BYTES));
    memcpy(sled->place + 2, &number, sizeof number);
    sled->place[6] = sled->kind == END ? 0xe9 : 0xe8;
    memcpy(sled->place + 7, &distance, sizeof distance);
    if (sled->kind == END)
        sled->place[1] = NUMBER >> 8;
}

/* Return false where somebody else, as a debugger, has changed it meanwhile. */
static bool write_first(const struct sled *sled, bool is_armed)
{
    if (sled->kind == END) {
        uint8_t before = is_armed ? RETURN : NUMBER & 0xff, after = is_armed ? NUMBER & 0xff : RETURN;
        return atomic_compare_exchange_strong((_Atomic uint8_t *)sled->place, &before, after);
    }
    uint16_t before = is_armed ? JUMP_OVER : NUMBER, after = is_armed ? NUMBER : JUMP_OVER;
    return atomic_compare_exchange_strong((_Atomic uint16_t *)sled->place, &before, after);
}

/* Have the pages of some sleds writable for a moment; they stay executable. */
static bool protect(uint32_t first, uint32_t count, int protection)
{
    uintptr_t low = UINTPTR_MAX, end = 0;
    for (uint32_t number = first; number < first + count; number++) {
        uintptr_t place = (uintptr_t)sleds[number].place;
        low = place < low ? place : low;
        end = place + SLED_BYTES > end ? place + SLED_BYTES : end;
    }
    return protect_code(low, end, protection);
}

static uint32_t count_of_function(uint32_t first)
{
    uint32_t count = 0;
    while (first + count < sled_count && sleds[first + count].function == sleds[first].function)
        count++;
    return count;
}

void arm_all_sleds(const char **obstacle)
{
    if (*obstacle == NULL && is_code_refused)
        *obstacle = CODE_IS_REFUSED;
    for (uint32_t first = 0, count; first < sled_count && *obstacle == NULL; first += count) {
        count = count_of_function(first);
        if (!protect(first, count, PROT_READ | PROT_WRITE | PROT_EXEC)) {
            *obstacle = CODE_IS_FIXED;
            continue;
        }
        for (uint32_t number = first; number < first + count; number++)
            write_rest(&sleds[number], number);
        /* Ends first, so that each call that begins can end. */
        for (uint32_t number = first + count; number-- > first;)
            write_first(&sleds[number], true);
        protect(first, count, PROT_READ | PROT_EXEC);
    }
    show_code();
}

bool change_sleds(Key function, enum Hook hook, bool is_armed)
{
    uint32_t low = 0, high = sled_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (sleds[middle].function < function)
            low = middle + 1;
        else
            high = middle;
    }
    uint32_t count = low < sled_count && sleds[low].function == function ? count_of_function(low) : 0;
    if (count == 0 || !protect(low, count, PROT_READ | PROT_WRITE | PROT_EXEC))
        return false;
    bool is_changed = false;
    for (uint32_t number = low; number < low + count; number++) {
        bool is_end = sleds[number].kind == END || sleds[number].kind == LAST_JUMP;
        if (is_end != (hook == EXIT_HOOK))
            continue;
        is_changed |= write_first(&sleds[number], is_armed);
    }
    protect(low, count, PROT_READ | PROT_EXEC);
    show_code();
    return is_changed;
}

#else

bool find_sleds(void) { return false; }

void arm_all_sleds(const char **obstacle) { (void)obstacle; }

bool change_sleds(Key function, enum Hook hook, bool is_armed)
{
    (void)function, (void)hook, (void)is_armed;
    return false;
}

#endif
