/* Lengths of instructions, as the opcode maps of the processors' manuals have them, and extents of functions, as
 * the tables for unwinding have them. */
#define _GNU_SOURCE
#include "machinecode.h"

#include <stdlib.h>
#include <string.h>

size_t (*jump_that_was)(const uint8_t *code);

#ifdef __x86_64__

enum { NO_IMMEDIATE = 0, WITH_MODRM = 16, UNKNOWN = 32, OPERAND = 4 /* 2 bytes after a prefix 66 */ };

static bool is_among(uint8_t byte, const char *list, size_t count) { return memchr(list, byte, count) != NULL; }
#define IS_AMONG(byte, list) is_among(byte, list, sizeof list - 1)

/* What follows an opcode of one byte. */
static int after_opcode(uint8_t op)
{
    if (op < 0x40)
        return (op & 7) < 4 ? WITH_MODRM : (op & 7) == 4 ? 1 : (op & 7) == 5 ? OPERAND : UNKNOWN;
    if (op >= 0x70 && op <= 0x7f)
        return 1;
    if (IS_AMONG(op, "\x6a\xa8\xcd\xeb") || (op >= 0xb0 && op <= 0xb7) || (op >= 0xe0 && op <= 0xe7))
        return 1;
    if (IS_AMONG(op, "\x68\xa9\xe8\xe9") || (op >= 0xb8 && op <= 0xbf))
        return OPERAND;
    if (IS_AMONG(op, "\x6b\x80\x83\xc0\xc1\xc6"))
        return WITH_MODRM + 1;
    if (IS_AMONG(op, "\x69\x81\xc7"))
        return WITH_MODRM + OPERAND;
    if (op == 0x63 || (op >= 0x84 && op <= 0x8e) || (op >= 0xd0 && op <= 0xd3) || op >= 0xfe)
        return WITH_MODRM;
    if ((op >= 0xd8 && op <= 0xdf) || op == 0xf6 || op == 0xf7)
        return WITH_MODRM;
    if (op == 0xc2)
        return 2;
    if (IS_AMONG(op, "\x60\x61\x62\x82\x8f\x9a\xa0\xa1\xa2\xa3\xc4\xc5\xc8\xca\xcb\xce\xd4\xd5\xd6\xea"))
        return UNKNOWN;
    return NO_IMMEDIATE;
}

/* What follows an opcode of the map behind the byte 0F. */
static int after_escape(uint8_t op)
{
    if (op >= 0x80 && op <= 0x8f)
        return OPERAND;
    if (IS_AMONG(op, "\x05\x06\x07\x08\x09\x0b\x30\x31\x32\x33\x34\x35\x77\xa0\xa1\xa2\xa8\xa9\xaa"))
        return NO_IMMEDIATE;
    if (op >= 0xc8 && op <= 0xcf)
        return NO_IMMEDIATE;
    if (IS_AMONG(op, "\x70\x71\x72\x73\xa4\xac\xba\xc2\xc4\xc5\xc6"))
        return WITH_MODRM + 1;
    if (IS_AMONG(op, "\x04\x0a\x0c\x0e\x0f\x24\x25\x26\x27\x36\x37\x39\x3b\x3c\x3d\x3e\x3f"))
        return UNKNOWN;
    return WITH_MODRM;
}

/* What follows an opcode of a map by its number, as the prefixes VEX and EVEX give it. */
static int after_vector_opcode(unsigned map, uint8_t op)
{
    if (map == 1)
        return op == 0x77 ? NO_IMMEDIATE : after_escape(op) == WITH_MODRM + 1 ? WITH_MODRM + 1 : WITH_MODRM;
    return map == 3 ? WITH_MODRM + 1 : map == 2 || map == 5 || map == 6 ? WITH_MODRM : UNKNOWN;
}

/* Length of the byte ModRM, of what it says of an address, and of that address. */
static size_t address_length(const uint8_t *code, size_t room)
{
    if (room < 2)
        return UNKNOWN;
    unsigned mode = code[0] >> 6, base = code[0] & 7;
    if (mode == 3)
        return 1;
    size_t length = base == 4 ? 2 : 1;
    if (mode == 0 && (base == 4 ? (code[1] & 7) == 5 : base == 5))
        return length + 4;
    return length + (mode == 1 ? 1 : mode == 2 ? 4 : 0);
}

size_t instruction_length(const uint8_t *code, size_t room)
{
    size_t at = 0;
    bool is_short = false, is_long = false;
    while (at + 1 < room && IS_AMONG(code[at], "\x66\xf2\xf3\xf0\x2e\x36\x3e\x26\x64\x65\x67"))
        is_short |= code[at++] == 0x66;
    if (at + 1 < room && (code[at] & 0xf0) == 0x40)
        is_long = code[at++] & 8;
    if (at >= room)
        return 0;
    uint8_t op = code[at++];
    int after = after_opcode(op);
    if ((op == 0xc5 && at + 1 < room) || (op == 0xc4 && at + 2 < room) || (op == 0x62 && at + 3 < room)) {
        unsigned map = op == 0xc5 ? 1 : op == 0xc4 ? code[at] & 0x1f : code[at] & 7;
        at += op == 0xc5 ? 1 : op == 0xc4 ? 2 : 3;
        op = 0; /* its meaning is another one than in the map of one byte */
        after = after_vector_opcode(map, code[at++]);
    } else if (op == 0x0f && at < room) {
        op = code[at++];
        after = op == 0x38 ? WITH_MODRM : op == 0x3a ? WITH_MODRM + 1 : after_escape(op);
        at += op == 0x38 || op == 0x3a;
        op = 0;
    } else if (op == 0xf6 || op == 0xf7) {
        bool is_test = at < room && (code[at] & 0x30) == 0;
        after = !is_test ? WITH_MODRM : WITH_MODRM + (op == 0xf6 ? 1 : OPERAND);
    } else if (op == 0xc4 || op == 0xc5 || op == 0x62 || op == 0x0f) {
        return 0;
    }
    if (after == UNKNOWN)
        return 0;
    if (after & WITH_MODRM)
        at += at < room ? address_length(code + at, room - at) : UNKNOWN;
    int immediate = after & (WITH_MODRM - 1);
    if (immediate == OPERAND && op >= 0xb8 && op <= 0xbf && is_long)
        immediate = 8;
    else if (immediate == OPERAND && is_short && op != 0 && op != 0xe8 && op != 0xe9)
        immediate = 2;
    at += (size_t)immediate;
    return at <= room ? at : 0;
}

/* Whether bytes are part of a binary as it was loaded. */
static bool is_within(Module *module, uintptr_t address, size_t bytes, ElfW(Word) flags)
{
    for (unsigned number = 0; number < module->dlpi_phnum; number++) {
        const ElfW(Phdr) *header = &module->dlpi_phdr[number];
        uintptr_t start = module->dlpi_addr + header->p_vaddr;
        if (header->p_type == PT_LOAD && (header->p_flags & flags) == flags && address >= start &&
            address + bytes <= start + header->p_memsz)
            return true;
    }
    return false;
}

static uintptr_t target_of(const uint8_t *displacement)
{
    int32_t distance;
    memcpy(&distance, displacement, sizeof distance);
    return (uintptr_t)displacement + 4 + (uintptr_t)(intptr_t)distance;
}

/* Whether the address at the end of an instruction is that of a pointer to the hook. */
static bool is_pointer(Module *module, const uint8_t *displacement, const void *hook)
{
    uintptr_t slot = target_of(displacement);
    return slot % sizeof(void *) == 0 && is_within(module, slot, sizeof(void *), PF_R) &&
           *(void *const *)slot == hook;
}

static bool is_hook_or_its_entry(Module *module, uintptr_t target, const void *hook)
{
    if (target == (uintptr_t)hook)
        return true;
    if (!is_within(module, target, 16, PF_X | PF_R))
        return false;
    const uint8_t *code = (const uint8_t *)target;
    if (memcmp(code, "\xf3\x0f\x1e\xfa", 4) == 0) /* endbr64 */
        code += 4;
    if (*code == 0xf2) /* bnd */
        code++;
    return code[0] == 0xff && code[1] == 0x25 && is_pointer(module, code + 2, hook);
}

size_t call_length(Module *module, const uint8_t *code, const void *hook)
{
    if (code[0] == 0xe8 && is_hook_or_its_entry(module, target_of(code + 1), hook))
        return 5;
    return code[0] == 0xff && code[1] == 0x15 && is_pointer(module, code + 2, hook) ? 6 : 0;
}

static bool is_jump(Module *module, const uint8_t *code, size_t length, const void *hook)
{
    if (length == 5 && code[0] == 0xe9)
        return is_hook_or_its_entry(module, target_of(code + 1), hook);
    return length == 6 && code[0] == 0xff && code[1] == 0x25 && is_pointer(module, code + 2, hook);
}

/* Head of the sorted table of all functions, in the only form that linkers write. */
struct unwinding {
    uint8_t version, frame_encoding, count_encoding, table_encoding;
    int32_t frame;
    uint32_t count;
    struct {
        int32_t function, description; /* from the head */
    } rows[];
};

struct description {
    uint32_t length, common;
    int32_t function; /* from here */
    uint32_t bytes;
};

/* A function, or a part of one that lies apart. */
struct extent {
    const uint8_t *start, *end; /* NULL where it is not known */
};

/* The function in which an address lies. */
static struct extent extent_of(Module *module, const uint8_t *code)
{
    static const struct extent none;
    const struct unwinding *table = NULL;
    for (unsigned number = 0; number < module->dlpi_phnum; number++)
        if (module->dlpi_phdr[number].p_type == PT_GNU_EH_FRAME)
            table = (const void *)(module->dlpi_addr + module->dlpi_phdr[number].p_vaddr);
    if (table == NULL || memcmp(table, "\x01\x1b\x03\x3b", 4) != 0)
        return none;
    uint32_t low = 0, high = table->count; /* low: of those that begin behind it */
    intptr_t wanted = (intptr_t)code - (intptr_t)table;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (table->rows[middle].function <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return none;
    const struct description *found = (const void *)((const char *)table + table->rows[low - 1].description);
    if (!is_within(module, (uintptr_t)found, sizeof *found, PF_R))
        return none;
    /* Where its encoding is another one, this is not so. */
    const uint8_t *start = (const uint8_t *)table + table->rows[low - 1].function;
    bool is_ours = (intptr_t)&found->function + found->function == (intptr_t)start && code < start + found->bytes;
    if (!is_ours || !is_within(module, (uintptr_t)start, found->bytes, PF_X | PF_R))
        return none;
    return (struct extent){start, start + found->bytes};
}

/* Length of an instruction of the program as it was compiled. */
static size_t length_at(const uint8_t *at, const uint8_t *end)
{
    size_t length = *at == 0xc3 && jump_that_was != NULL ? jump_that_was(at) : 0;
    return length != 0 ? length : instruction_length(at, (size_t)(end - at));
}

unsigned find_jumps(Module *module, const uint8_t *function, const void *hook, uint8_t **jumps, unsigned most)
{
    struct extent extent = extent_of(module, function);
    unsigned found = 0;
    if (extent.start != function)
        return 0;
    size_t length;
    for (const uint8_t *at = extent.start; at < extent.end && found < most; at += length) {
        length = length_at(at, extent.end);
        if (length == 0)
            return found;
        if (is_jump(module, at, length, hook))
            jumps[found++] = (uint8_t *)(uintptr_t)at;
    }
    return found;
}

/* Where a direct jump goes; NULL for what is none. */
static const uint8_t *jump_target(const uint8_t *code, size_t length)
{
    bool is_near = length == 2 && (code[0] == 0xeb || (code[0] & 0xf0) == 0x70);
    bool is_far = (length == 5 && code[0] == 0xe9) || (length == 6 && code[0] == 0x0f && (code[1] & 0xf0) == 0x80);
    if (is_near)
        return code + 2 + (int8_t)code[1];
    return is_far ? (const uint8_t *)target_of(code + length - 4) : NULL;
}

/* What an indirect jump says of where it goes, its byte ModRM; 0 for any other instruction. */
static uint8_t indirect_jump(const uint8_t *code, size_t length)
{
    const uint8_t *end = code + length;
    while (code < end && (IS_AMONG(*code, "\xf2\x3e") || (*code & 0xf0) == 0x40))
        code++;
    return end - code >= 2 && code[0] == 0xff && (code[1] & 0x38) == 0x20 ? code[1] : 0;
}

/* Whether an instruction is followed by none of its function: a return, a jump, or one that ends the program. */
static bool is_last(const uint8_t *code, size_t length)
{
    const uint8_t *end = code + length;
    bool is_indirect = indirect_jump(code, length) != 0;
    while (code < end && IS_AMONG(*code, "\xf2\xf3\x3e"))
        code++;
    bool is_undefined = end - code == 2 && code[0] == 0x0f && code[1] == 0x0b;
    return IS_AMONG(*code, "\xc3\xc2\xe9\xeb\xf4") || is_undefined || is_indirect;
}

enum { FIRST_ARGUMENT = 7 /* RDI */, STACK_POINTER = 4, FRAME_POINTER = 5 };
enum { MOST_INSTRUCTIONS = 1 << 16, MOST_JUMPS = 1 << 14, MOST_SOUGHT = 8, MOST_STEPS = 1 << 14 };
#define KEPT_BY_CALLS "\x03\x04\x05\x0c\x0d\x0e\x0f" /* registers */

/* A place in which an address may be: a register, or a word of the stack by its distance from a register. */
typedef int64_t Location;
#define NOWHERE INT64_C(-1)

static Location word_at(unsigned base, int32_t distance) { return INT64_C(1) << 40 | (int64_t)base << 32 | (uint32_t)distance; }

/* The location that the operand of an instruction is, of which the byte ModRM stands at `modrm`; NOWHERE for another
 * memory. */
static Location operand_at(const uint8_t *modrm, unsigned prefix)
{
    unsigned mode = *modrm >> 6, base = *modrm & 7;
    const uint8_t *distance = modrm + 1;
    if (mode == 3)
        return base | (prefix & 1) << 3;
    if (prefix & 1 || mode == 0)
        return NOWHERE;
    if (base == STACK_POINTER && *distance++ != 0x24)
        return NOWHERE;
    if (base != STACK_POINTER && base != FRAME_POINTER)
        return NOWHERE;
    int32_t far;
    memcpy(&far, distance, mode == 2 ? sizeof far : 1);
    return word_at(base, mode == 2 ? far : (int8_t)*distance);
}

/* What an instruction writes: a value, a copy of what is elsewhere, or what is not known. */
struct write {
    Location target; /* NOWHERE for none that matters */
    Location source;
    bool is_value;
    uintptr_t value;
};

/* What an instruction writes into a register, or a word of the stack, of what compilers do with addresses. */
static struct write read_write(const uint8_t *code, size_t length)
{
    const uint8_t *end = code + length;
    unsigned prefix = (*code & 0xf0) == 0x40 ? *code++ : 0, modrm = end - code > 1 ? code[1] : 0;
    unsigned reg = (modrm >> 3 & 7) | (prefix & 4) << 1;
    struct write write = {.target = NOWHERE, .source = NOWHERE};
    if (*code == 0x8d || *code == 0x8b) { /* lea, mov to a register */
        write.target = reg;
        write.is_value = *code == 0x8d && (modrm & 0xc7) == 5;
        write.value = write.is_value ? target_of(end - 4) : 0;
        if (*code == 0x8b && prefix & 8)
            write.source = operand_at(code + 1, prefix);
    } else if (*code == 0x89) { /* mov from a register */
        write.target = operand_at(code + 1, prefix);
        write.source = prefix & 8 ? (Location)reg : NOWHERE;
    } else if ((*code & 0xf8) == 0xb8 || (*code == 0xc7 && (modrm & 0x38) == 0)) { /* mov of a constant */
        int32_t value = 0;
        bool is_short = end - code >= 5 && !(*code != 0xc7 && prefix & 8);
        memcpy(&value, end - 4, is_short ? sizeof value : 0);
        write.target = *code == 0xc7 ? operand_at(code + 1, prefix) : (Location)((*code & 7) | (prefix & 1) << 3);
        write.is_value = is_short;
        write.value = *code == 0xc7 ? (uintptr_t)(intptr_t)value : (uint32_t)value;
    } else if ((*code & 0xf8) == 0x58) { /* pop */
        write.target = (*code & 7) | (prefix & 1) << 3;
    }
    return write;
}

static bool is_call(const uint8_t *code, size_t length)
{
    const uint8_t *end = code + length;
    if ((*code & 0xf0) == 0x40)
        code++;
    return *code == 0xe8 || (end - code >= 2 && *code == 0xff && (code[1] & 0x38) == 0x10);
}

/* The instructions of a function, and its jumps by their targets; those of one function at a time. */
static struct {
    struct extent extent;
    unsigned long long loads; /* of modules, and unloads, until then */
    uint32_t count, jump_count;
    uint32_t at[MOST_INSTRUCTIONS]; /* from the start */
    struct {
        uint32_t target, source; /* the place, and the number of the instruction */
    } jumps[MOST_JUMPS];
    uint8_t seen[MOST_SOUGHT][MOST_INSTRUCTIONS / 8];
    Location sought[MOST_SOUGHT];
    struct {
        uint32_t number;
        uint32_t sought;
    } waiting[MOST_STEPS];
} function_code;
#define CODE function_code

static int compare_targets(const void *one, const void *other)
{
    const uint32_t *a = one, *b = other;
    return (*a > *b) - (*a < *b);
}

/* Return false for a function that is not understood. */
static bool read_function(Module *module, struct extent extent)
{
    if (CODE.extent.start == extent.start && CODE.extent.end == extent.end &&
        CODE.loads == module->dlpi_adds + module->dlpi_subs)
        return CODE.count > 0;
    CODE.extent = extent;
    CODE.loads = module->dlpi_adds + module->dlpi_subs;
    CODE.count = CODE.jump_count = 0;
    uint32_t count = 0;
    size_t length;
    for (const uint8_t *at = extent.start; at < extent.end; at += length) {
        length = length_at(at, extent.end);
        if (length == 0 || count == MOST_INSTRUCTIONS || CODE.jump_count == MOST_JUMPS)
            return false;
        const uint8_t *target = jump_target(at, length);
        if (target >= extent.start && target < extent.end) {
            CODE.jumps[CODE.jump_count].target = (uint32_t)(target - extent.start);
            CODE.jumps[CODE.jump_count++].source = count;
        }
        CODE.at[count++] = (uint32_t)(at - extent.start);
    }
    qsort(CODE.jumps, CODE.jump_count, sizeof *CODE.jumps, compare_targets);
    CODE.count = count;
    return true;
}

static size_t length_of(uint32_t number)
{
    size_t end = number + 1 < CODE.count ? CODE.at[number + 1] : (size_t)(CODE.extent.end - CODE.extent.start);
    return end - CODE.at[number];
}

/* Number of the first jump to a place, or to one behind it. */
static uint32_t first_jump(uint32_t place)
{
    uint32_t low = 0, high = CODE.jump_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (CODE.jumps[middle].target < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* A search for all that may be in the first argument before an instruction. */
struct origins {
    uintptr_t wanted;
    uint32_t waiting;
    uint32_t sought; /* number of locations */
    bool is_found;
};

static bool seek(struct origins *origins, uint32_t number, Location location)
{
    uint32_t sought = 0;
    while (sought < origins->sought && CODE.sought[sought] != location)
        sought++;
    if (sought == MOST_SOUGHT || origins->waiting == MOST_STEPS)
        return false;
    if (sought == origins->sought) {
        CODE.sought[origins->sought++] = location;
        memset(CODE.seen[sought], 0, sizeof CODE.seen[sought]);
    }
    if (CODE.seen[sought][number / 8] & 1 << number % 8)
        return true;
    CODE.seen[sought][number / 8] |= (uint8_t)(1 << number % 8);
    CODE.waiting[origins->waiting].number = number;
    CODE.waiting[origins->waiting++].sought = sought;
    return true;
}

/* Look at an instruction after which the wanted address has to be in a location. */
static bool seek_before(struct origins *origins, uint32_t number, Location location)
{
    const uint8_t *code = CODE.extent.start + CODE.at[number];
    size_t length = length_of(number);
    struct write write = read_write(code, length);
    if (write.target == location) {
        if (write.is_value) {
            origins->is_found = true;
            return write.value == origins->wanted;
        }
        return write.source != NOWHERE && seek(origins, number, write.source);
    }
    bool is_lost = location < 16 && is_call(code, length) && !is_among((uint8_t)location, KEPT_BY_CALLS, 7);
    return !is_lost && seek(origins, number, location);
}

static bool is_nop(const uint8_t *code, size_t length)
{
    const uint8_t *end = code + length;
    while (end - code > 1 && IS_AMONG(*code, "\x66\x2e"))
        code++;
    return *code == 0x90 || (end - code > 2 && code[0] == 0x0f && code[1] == 0x1f);
}

/* Whether the instruction before one leads to it, and not only fills up the space before it. */
static bool is_behind_another(uint32_t number)
{
    while (number > 0 && is_nop(CODE.extent.start + CODE.at[number - 1], length_of(number - 1)))
        number--;
    return number > 0 && !is_last(CODE.extent.start + CODE.at[number - 1], length_of(number - 1));
}

bool is_for_function(Module *module, const uint8_t *code, uintptr_t function)
{
    struct extent extent = extent_of(module, code);
    if (extent.start == NULL || !read_function(module, extent))
        return false;
    struct origins origins = {.wanted = function};
    uint32_t place = (uint32_t)(code - extent.start), low = 0, high = CODE.count - 1;
    while (low < high) {
        uint32_t middle = (low + high + 1) / 2;
        if (CODE.at[middle] <= place)
            low = middle;
        else
            high = middle - 1;
    }
    if (CODE.at[low] != place || !seek(&origins, low, FIRST_ARGUMENT))
        return false;
    while (origins.waiting > 0) {
        uint32_t number = CODE.waiting[--origins.waiting].number;
        Location location = CODE.sought[CODE.waiting[origins.waiting].sought];
        /* Where nothing leads to, an exception does, or a table of jumps. */
        bool is_led_to = false;
        if (is_behind_another(number)) {
            is_led_to = true;
            if (!seek_before(&origins, number - 1, location))
                return false;
        }
        for (uint32_t jump = first_jump(CODE.at[number]);
             jump < CODE.jump_count && CODE.jumps[jump].target == CODE.at[number]; jump++) {
            is_led_to = true;
            if (!seek_before(&origins, CODE.jumps[jump].source, location))
                return false;
        }
        if (!is_led_to || number == 0)
            return false;
    }
    return origins.is_found;
}

struct loaded {
    const uint8_t *code;
    struct extent extent; /* of its function */
};

static int note_extent(struct dl_phdr_info *module, size_t size, void *data)
{
    struct loaded *loaded = data;
    (void)size;
    if (!is_within(module, (uintptr_t)loaded->code, 1, PF_X | PF_R))
        return 0;
    loaded->extent = extent_of(module, loaded->code);
    return 1;
}

bool has_way(const uint8_t *from, const uint8_t *to, struct places *places)
{
    struct loaded loaded = {.code = from};
    dl_iterate_phdr(note_extent, &loaded);
    struct extent extent = loaded.extent;
    if (extent.start == NULL || extent.end - extent.start > MOST_CODE)
        return true;
    if (to < extent.start || to > extent.end)
        return false;
    memset(places->seen, 0, sizeof places->seen);
    unsigned count = 0;
    places->waiting[count++] = from;
    while (count > 0) {
        size_t length;
        for (const uint8_t *at = places->waiting[--count]; at >= extent.start && at < extent.end; at += length) {
            size_t place = (size_t)(at - extent.start);
            if (places->seen[place / 8] & 1 << place % 8)
                break;
            places->seen[place / 8] |= (uint8_t)(1 << place % 8);
            length = length_at(at, extent.end);
            /* One by way of the global offset table leaves the function, one by another table does not. */
            uint8_t indirect = indirect_jump(at, length);
            bool is_by_table = indirect != 0 && indirect != 0x25;
            if (length == 0 || is_by_table || count == MOST_WAITING || at + length == to)
                return true;
            const uint8_t *target = jump_target(at, length);
            if (target != NULL)
                places->waiting[count++] = target;
            if (is_last(at, length))
                break;
        }
    }
    return false;
}

#else

size_t instruction_length(const uint8_t *code, size_t room) { return (void)code, (void)room, 0; }

#endif
