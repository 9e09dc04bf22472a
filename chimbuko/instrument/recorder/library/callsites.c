/* One byte of an instruction is changed, so that whoever executes it sees the old one or the new one, wherever it
 * lies: a direct call E8 becomes A9, which compares a register with the four bytes behind; a call by way of the
 * global offset table FF 15 becomes 85 15, which compares a register with that table's entry; and a jump by which a
 * function ends becomes a return, C3. A comparison changes flags alone, which no call preserves. */
#define _GNU_SOURCE
#include "callsites.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__

#include <linux/membarrier.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hooks.h"
#include "machinecode.h"

enum { MOST_JUMPS = 1 << 10, MOST_IN_FUNCTION = 8 };
enum { RETURN = 0xc3, COMPARE = 0xa9, COMPARE_WITH_MEMORY = 0x85 };
enum State { UNCHECKED, ARMED, DISARMED, UNUSABLE };

enum { SITES = 1 << 13 /* a power of two */ };

struct site {
    _Atomic uintptr_t address; /* behind the call; of a jump that of its function */
    _Atomic uint32_t is_known; /* what follows is complete */
    uint32_t row;
    uintptr_t function;
    uint8_t hook;
    uint8_t is_jump;
    _Atomic uint8_t is_shared; /* by functions, of which one may be wanted */
    uint8_t state;
    uint8_t length;
    uint8_t disarmed;    /* first byte, where it is disarmed */
    uint8_t original[6]; /* bytes */
    uint8_t *place;      /* of the instruction */
};

static struct site sites[SITES];
static struct site *jumps[MOST_JUMPS];
static unsigned jump_count;
static _Atomic uint32_t site_count;

/* The site of an address; *is_new says that the caller has to describe it. NULL where there is no room. */
static struct site *site_at(uintptr_t address, bool *is_new)
{
    *is_new = false;
    for (uint32_t slot = (uint32_t)((address * UINT64_C(0x9e3779b97f4a7c15)) >> 51);; slot++) {
        struct site *site = &sites[slot & (SITES - 1)];
        uintptr_t found = atomic_load_explicit(&site->address, memory_order_acquire);
        if (found == 0) {
            if (atomic_load(&site_count) >= SITES / 4 * 3)
                return NULL;
            *is_new = atomic_compare_exchange_strong(&site->address, &found, address);
            if (*is_new)
                atomic_fetch_add(&site_count, 1);
        }
        if (*is_new || found == address)
            return site;
    }
}

static void describe(struct site *site, enum Hook hook, uint32_t row, uintptr_t function, bool is_jump)
{
    site->function = function;
    site->row = row;
    site->hook = (uint8_t)hook;
    site->is_jump = is_jump;
    atomic_store_explicit(&site->is_known, 1, memory_order_release);
}

void note_site(enum Hook hook, uint32_t row, uintptr_t function, uintptr_t return_address, uintptr_t caller)
{
    bool is_jump = hook == EXIT_HOOK && return_address == caller, is_new;
    struct site *site = site_at(is_jump ? function : return_address, &is_new);
    if (site != NULL && is_new)
        describe(site, hook, row, function, is_jump);
    else if (site != NULL && atomic_load_explicit(&site->is_known, memory_order_acquire) && site->row != row)
        atomic_store_explicit(&site->is_shared, 1, memory_order_relaxed);
}

struct change {
    struct site **sites;
    unsigned count;
    bool is_armed;
    unsigned changed;
    bool *rows; /* of which some were changed */
    int error;
};

static size_t length_of_jump(const uint8_t *code)
{
    for (unsigned number = 0; number < jump_count; number++)
        if (jumps[number]->place == code && jumps[number]->state == DISARMED)
            return jumps[number]->length;
    return 0;
}

static void place(struct site *site, uint8_t *instruction, size_t length)
{
    if (site->is_jump) {
        if (jump_count == MOST_JUMPS)
            return;
        jumps[jump_count++] = site;
        jump_that_was = length_of_jump;
    }
    site->place = instruction;
    site->length = (uint8_t)length;
    memcpy(site->original, instruction, length);
    site->disarmed = site->is_jump ? RETURN : length == 5 ? COMPARE : COMPARE_WITH_MEMORY;
    site->state = ARMED;
}

static void look_at_jumps(struct site *site, uint8_t *function, const void *hook, Module *module)
{
    uint8_t *found[MOST_IN_FUNCTION];
    unsigned count = find_jumps(module, function, hook, found, MOST_IN_FUNCTION);
    for (unsigned number = 0; number < count; number++) {
        bool is_new = true;
        /* No call returns into the middle of an instruction. */
        struct site *further = number == 0 ? site : site_at((uintptr_t)found[number] + 1, &is_new);
        if (further == NULL || !is_new || !is_for_function(module, found[number], site->function))
            continue;
        if (further != site)
            describe(further, EXIT_HOOK, site->row, site->function, true);
        place(further, found[number], *found[number] == 0xe9 ? 5 : 6);
    }
}

/* Find the instruction of a site, if it is one that may be changed. */
static void look_at(struct site *site, Module *module)
{
    const void *hook = site->hook == ENTRY_HOOK ? (void *)__cyg_profile_func_enter : (void *)__cyg_profile_func_exit;
    uint8_t *behind = (uint8_t *)atomic_load(&site->address);
    site->state = UNUSABLE;
    if (site->is_jump)
        look_at_jumps(site, behind, hook, module);
    else if (call_length(module, behind - 5, hook) == 5 && is_for_function(module, behind - 5, site->function))
        place(site, behind - 5, 5);
    else if (call_length(module, behind - 6, hook) == 6 && is_for_function(module, behind - 6, site->function))
        place(site, behind - 6, 6);
}

/* Change a site, if the bytes are still there that should be. */
static bool rewrite(const struct site *site, bool is_armed)
{
    uint8_t before = is_armed ? site->disarmed : site->original[0];
    uint8_t after = is_armed ? site->original[0] : site->disarmed;
    if (memcmp(site->place + 1, site->original + 1, site->length - 1u) != 0)
        return false;
    return atomic_compare_exchange_strong((_Atomic uint8_t *)site->place, &before, after);
}

static int compare_places(const void *one, const void *other)
{
    const uint8_t *a = (*(struct site *const *)one)->place, *b = (*(struct site *const *)other)->place;
    return (a > b) - (a < b);
}

static int compare_addresses(const void *one, const void *other)
{
    uintptr_t a = atomic_load(&(*(struct site *const *)one)->address);
    uintptr_t b = atomic_load(&(*(struct site *const *)other)->address);
    return (a > b) - (a < b);
}

static uintptr_t page_of(const struct site *site)
{
    return (uintptr_t)site->place & ~(uintptr_t)4095;
}

/* Change sites that lie within some pages of the same segment; these stay executable all the time. */
static void change_pages(struct site **of_pages, unsigned count, int protection, struct change *change)
{
    uintptr_t start = page_of(of_pages[0]), bytes = page_of(of_pages[count - 1]) + 4096 - start;
    if (mprotect((void *)start, bytes, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
        change->error = errno;
        return;
    }
    for (unsigned number = 0; number < count; number++) {
        struct site *site = of_pages[number];
        bool is_done = rewrite(site, change->is_armed);
        site->state = !is_done ? UNUSABLE : change->is_armed ? ARMED : DISARMED;
        change->changed += is_done;
        change->rows[site->row] |= is_done;
    }
    mprotect((void *)start, bytes, protection);
}

static void change_segment(uintptr_t start, uintptr_t end, Module *module, int protection, struct change *change)
{
    unsigned count = 0, first = 0;
    struct site **found = change->sites + change->count; /* room for as many again */
    for (unsigned number = 0; number < change->count; number++) {
        struct site *site = change->sites[number];
        uintptr_t address = atomic_load(&site->address);
        if (address < start + 8 || address >= end)
            continue;
        if (site->state == UNCHECKED)
            look_at(site, module);
        if (site->state == (change->is_armed ? DISARMED : ARMED))
            found[count++] = site;
    }
    qsort(found, count, sizeof *found, compare_places);
    for (unsigned number = 1; number <= count; number++)
        /* A system call costs more than to have some further pages writable for a moment. */
        if (number == count || page_of(found[number]) - page_of(found[number - 1]) > 16 * 4096) {
            change_pages(found + first, number - first, protection, change);
            first = number;
        }
}

/* Libraries stay where they are while they are looked at. */
static int change_module(struct dl_phdr_info *module, size_t size, void *data)
{
    (void)size;
    for (unsigned number = 0; number < module->dlpi_phnum; number++) {
        const ElfW(Phdr) *header = &module->dlpi_phdr[number];
        if (header->p_type != PT_LOAD || !(header->p_flags & PF_X) || !(header->p_flags & PF_R))
            continue;
        uintptr_t start = module->dlpi_addr + header->p_vaddr;
        int protection = PROT_READ | PROT_EXEC | (header->p_flags & PF_W ? PROT_WRITE : 0);
        change_segment(start, start + header->p_memsz, module, protection, data);
    }
    return 0;
}

/* What looks at the program's code, or has its own copy of it, must not be surprised by changes. */
static const char *observer(void)
{
    static const char *const others[] = {"vgpreload", "librrpreload", "libdynamorio", "pinbin", "libasan"};
    char line[512];
    const char *found = NULL;
    FILE *status = fopen("/proc/self/status", "re");
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, "TracerPid:", 10) == 0 && atol(line + 10) != 0)
            found = "a debugger watches the program";
    if (status != NULL)
        fclose(status);
    static bool is_looked;
    static const char *tool;
    FILE *maps = is_looked ? NULL : fopen("/proc/self/maps", "re");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        for (unsigned number = 0; number < sizeof others / sizeof *others; number++)
            if (strstr(line, others[number]) != NULL)
                tool = "another tool translates the program's code";
    if (maps != NULL)
        fclose(maps);
    is_looked = true;
    return tool != NULL ? tool : found;
}

static bool is_synchronising(void)
{
    static int is_registered = -1;
    if (is_registered < 0)
        is_registered =
            syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) == 0;
    return is_registered;
}

const char *obstacle_to_changes(void)
{
    const char *reason = observer();
    return reason == NULL && !is_synchronising() ? "the system cannot make all cores see a change of code (membarrier)"
                                                 : reason;
}

unsigned change_sites(enum Hook hook, bool is_armed, bool *rows, const char **obstacle)
{
    static struct site *wanted[2 * SITES];
    struct change change = {.sites = wanted, .is_armed = is_armed, .rows = rows};
    for (unsigned slot = 0; slot < SITES; slot++) {
        struct site *site = &sites[slot];
        if (!atomic_load_explicit(&site->is_known, memory_order_acquire) || site->hook != hook || !rows[site->row])
            continue;
        bool is_possible = is_armed ? site->state == DISARMED
                                    : !site->is_shared && (site->state == UNCHECKED || site->state == ARMED);
        if (is_possible)
            wanted[change.count++] = site;
    }
    memset(rows, 0, FUNCTIONS * sizeof *rows);
    if (change.count == 0)
        return 0;
    /* Those of a function stand together: it is read once for all of them. */
    qsort(wanted, change.count, sizeof *wanted, compare_addresses);
    /* What was disarmed before a debugger came is armed again nevertheless. */
    const char *reason = is_armed ? NULL : obstacle_to_changes();
    if (reason == NULL)
        dl_iterate_phdr(change_module, &change);
    if (change.error != 0)
        reason = "the system does not let a program change its code";
    if (change.changed > 0)
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
    if (reason != NULL)
        *obstacle = reason;
    return change.changed;
}

#else

void note_site(enum Hook hook, uint32_t row, uintptr_t function, uintptr_t return_address, uintptr_t caller)
{
    (void)hook, (void)row, (void)function, (void)return_address, (void)caller;
}

unsigned change_sites(enum Hook hook, bool is_armed, bool *rows, const char **obstacle)
{
    (void)hook, (void)is_armed, (void)rows;
    *obstacle = "calls are taken out of the code of x86-64 only";
    return 0;
}

#endif
