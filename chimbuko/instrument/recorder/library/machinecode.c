/* Lengths of instructions, as the opcode maps of the processors' manuals have them, and extents of functions, as
 * the tables for unwinding have them. */
#define _GNU_SOURCE
#include "machinecode.h"

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

enum { FIRST_ARGUMENT = 7 /* RDI */, NO_REGISTER = 16 };

/* What an instruction writes into a register. */
struct write {
    unsigned target, source; /* registers; where the source is none, it is the value */
    uintptr_t value;
    const uint8_t *end;
};

/* Return false for an instruction that writes no address into a register, and copies none there. */
static bool read_write(const uint8_t *code, size_t length, struct write *write)
{
    const uint8_t *end = code + length;
    uint8_t prefix = (*code & 0xf0) == 0x40 ? *code++ : 0, modrm = length > 2 ? code[1] : 0;
    unsigned reg = (modrm >> 3 & 7) | (prefix & 4) << 1, base = (modrm & 7) | (unsigned)(prefix & 1) << 3;
    *write = (struct write){.target = reg, .source = NO_REGISTER, .end = end};
    if (*code == 0x8d && (modrm & 0xc7) == 5) { /* lea of an address from here */
        write->value = target_of(end - 4);
        return true;
    }
    if ((*code == 0x89 || *code == 0x8b) && modrm >> 6 == 3 && prefix & 8) { /* mov from register to register */
        write->target = *code == 0x89 ? base : reg;
        write->source = *code == 0x89 ? reg : base;
        return true;
    }
    if ((*code & 0xf8) == 0xb8 && end - code == 5) { /* mov of a constant; a function's address has no sign */
        uint32_t value;
        memcpy(&value, code + 1, sizeof value);
        write->target = (*code & 7) | (unsigned)(prefix & 1) << 3;
        write->value = value;
        return true;
    }
    return false;
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

/* Whether a direct jump goes to one of some instructions. */
static bool is_jumped_into(struct extent extent, const uint8_t *first, const uint8_t *last)
{
    size_t length;
    for (const uint8_t *at = extent.start; at < extent.end; at += length) {
        length = length_at(at, extent.end);
        const uint8_t *target = jump_target(at, length);
        if (target >= first && target <= last)
            return true;
    }
    return false;
}

/* Find what is written last into a register before an instruction, in the order of the code. *is_only says whether no
 * other address is written there in all of the function. Return false where nothing is, or not all is understood. */
static bool last_write(struct extent extent, const uint8_t *before, unsigned target, struct write *last, bool *is_only)
{
    bool is_found = false, is_reached = false;
    size_t length;
    struct write write;
    *is_only = true;
    for (const uint8_t *at = extent.start; at < extent.end; at += length) {
        is_reached |= at == before;
        length = length_at(at, extent.end);
        if (length == 0)
            return false;
        if (!read_write(at, length, &write) || write.target != target)
            continue;
        *is_only &= write.source != NO_REGISTER || !is_found || write.value == last->value;
        if (at < before || !is_found)
            *last = write;
        is_found = true;
    }
    return is_found && is_reached && last->end <= before;
}

bool is_for_function(Module *module, const uint8_t *code, uintptr_t function)
{
    struct extent extent = extent_of(module, code);
    struct write argument, origin;
    bool is_only;
    if (!last_write(extent, code, FIRST_ARGUMENT, &argument, &is_only) || is_jumped_into(extent, argument.end, code))
        return false;
    if (argument.source == NO_REGISTER)
        return argument.value == function;
    /* The address waits in another register, in which that of another function may be at another time. */
    if (!last_write(extent, argument.end, argument.source, &origin, &is_only) || origin.source != NO_REGISTER)
        return false;
    return origin.value == function && (is_only || !is_jumped_into(extent, origin.end, argument.end));
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

/* Whether an instruction is followed by none of its function: a return, a jump, or one that ends the program. */
static bool is_last(const uint8_t *code, size_t length)
{
    const uint8_t *end = code + length;
    while (code < end && IS_AMONG(*code, "\xf2\xf3\x3e"))
        code++;
    bool is_undefined = end - code == 2 && code[0] == 0x0f && code[1] == 0x0b;
    return IS_AMONG(*code, "\xc3\xc2\xe9\xeb\xf4") || is_undefined;
}

static bool is_indirect_jump(const uint8_t *code, size_t length)
{
    const uint8_t *end = code + length;
    while (code < end && (IS_AMONG(*code, "\xf2\x3e") || (*code & 0xf0) == 0x40))
        code++;
    return end - code >= 2 && code[0] == 0xff && (code[1] & 0x38) == 0x20;
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
            if (length == 0 || is_indirect_jump(at, length) || count == MOST_WAITING || at + length == to)
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
