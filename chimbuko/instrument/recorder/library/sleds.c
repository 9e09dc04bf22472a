/* A sled has 11 bytes. That at a function's beginning is a jump over its rest, as is that before a jump by which it ends;
 * that at a return is this return and a rest. We write our own code into the rest once, a number of the sled and a call
 * (a jump at the end), and from then on change what stands before it: the two bytes of the jump, which lie in one word,
 * or the one of the return. The calls go to a page near the binary, from which all of memory can be reached. */
#define _GNU_SOURCE
#include "sleds.h"

#include <stdatomic.h>

#if defined(__x86_64__)

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SECTION "xray_instr_map"
enum { PAGE = 4096, SLED_BYTES = 11, MOST_SLEDS = 1 << 20, MOST_SECTIONS = 4096, SEARCH_STEPS = 1 << 14, STUB_BYTES = 16 };
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
static bool is_refused; /* a page of code */

/* The number is in R10. Registers of arguments and results stay what they are. */
#define TRAMPOLINE(name, caller, hook)                                                                       \
    ".type " name ", @function\n" name ":\n"                                                                 \
    ".cfi_startproc\n push %rbp\n .cfi_def_cfa_offset 16\n .cfi_offset %rbp, -16\n"                          \
    "mov %rsp, %rbp\n .cfi_def_cfa_register %rbp\n sub $208, %rsp\n and $-16, %rsp\n"                        \
    "mov %rdi, (%rsp)\n mov %rsi, 8(%rsp)\n mov %rdx, 16(%rsp)\n mov %rcx, 24(%rsp)\n"                       \
    "mov %r8, 32(%rsp)\n mov %r9, 40(%rsp)\n mov %rax, 48(%rsp)\n mov %r11, 56(%rsp)\n"                      \
    "movups %xmm0, 64(%rsp)\n movups %xmm1, 80(%rsp)\n movups %xmm2, 96(%rsp)\n"                             \
    "movups %xmm3, 112(%rsp)\n movups %xmm4, 128(%rsp)\n movups %xmm5, 144(%rsp)\n"                          \
    "movups %xmm6, 160(%rsp)\n movups %xmm7, 176(%rsp)\n"                                                    \
    "mov sled_functions(%rip), %rdi\n mov (%rdi,%r10,8), %rdi\n mov " caller "(%rbp), %rsi\n"                \
    "call " hook "@PLT\n"                                                                                    \
    "mov (%rsp), %rdi\n mov 8(%rsp), %rsi\n mov 16(%rsp), %rdx\n mov 24(%rsp), %rcx\n"                       \
    "mov 32(%rsp), %r8\n mov 40(%rsp), %r9\n mov 48(%rsp), %rax\n mov 56(%rsp), %r11\n"                      \
    "movups 64(%rsp), %xmm0\n movups 80(%rsp), %xmm1\n movups 96(%rsp), %xmm2\n"                             \
    "movups 112(%rsp), %xmm3\n movups 128(%rsp), %xmm4\n movups 144(%rsp), %xmm5\n"                          \
    "movups 160(%rsp), %xmm6\n movups 176(%rsp), %xmm7\n"                                                    \
    "leave\n .cfi_def_cfa %rsp, 8\n ret\n .cfi_endproc\n .size " name ", .-" name "\n"

__asm__(".text\n" TRAMPOLINE("chimbuko_sled_begins", "16", "__cyg_profile_func_enter")
            TRAMPOLINE("chimbuko_sled_ends", "8", "__cyg_profile_func_exit")
                TRAMPOLINE("chimbuko_sled_jumps", "16", "__cyg_profile_func_exit"));

/* Find the compiler's table in the file of a binary, as it is not said where it lies in memory. */
static bool find_table(const char *path, uintptr_t base, const struct map_row **rows, size_t *count)
{
    ElfW(Ehdr) head;
    char names[64];
    bool is_found = false;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    ElfW(Shdr) *sections = NULL;
    if (pread(file, &head, sizeof head, 0) == sizeof head && memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
        head.e_shentsize == sizeof *sections && head.e_shnum <= MOST_SECTIONS && head.e_shstrndx < head.e_shnum)
        sections = malloc(head.e_shnum * sizeof *sections);
    size_t bytes = sections == NULL ? 0 : head.e_shnum * sizeof *sections;
    if (bytes > 0 && pread(file, sections, bytes, (off_t)head.e_shoff) == (ssize_t)bytes)
        for (unsigned number = 0; number < head.e_shnum && !is_found; number++) {
            off_t name = (off_t)(sections[head.e_shstrndx].sh_offset + sections[number].sh_name);
            if (!(sections[number].sh_flags & SHF_ALLOC) ||
                pread(file, names, sizeof SECTION, name) != sizeof SECTION ||
                memcmp(names, SECTION, sizeof SECTION) != 0)
                continue;
            *rows = (const void *)(base + sections[number].sh_addr);
            *count = sections[number].sh_size / sizeof **rows;
            is_found = true;
        }
    free(sections);
    close(file);
    return is_found;
}

/* A page near a binary with a jump to each of ours; NULL where there is no room for one. Below, as above the program
 * lies its heap, which grows. */
static uint8_t *make_stubs(uintptr_t lowest)
{
    const void *targets[] = {chimbuko_sled_begins, chimbuko_sled_ends, chimbuko_sled_jumps};
    uintptr_t wanted = lowest & ~(uintptr_t)(PAGE - 1);
    uint8_t *page = MAP_FAILED;
    for (int step = 1; step < SEARCH_STEPS && page == MAP_FAILED && wanted > 32 * PAGE; step++) {
        wanted -= 16 * PAGE;
        page = mmap((void *)wanted, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
                    -1, 0);
    }
    if (page == MAP_FAILED)
        return NULL;
    for (int number = 0; number < 3; number++) {
        memcpy(page + number * STUB_BYTES, "\xff\x25\0\0\0\0", 6); /* jmp to what follows */
        memcpy(page + number * STUB_BYTES + 6, &targets[number], sizeof targets[number]);
    }
    if (mprotect(page, PAGE, PROT_READ | PROT_EXEC) == 0)
        return page;
    is_refused = true;
    munmap(page, PAGE);
    return NULL;
}

static bool is_as_compiled(const struct map_row *row, const uint8_t *place)
{
    if (row->version != MAP_VERSION || row->kind > BEGINNING_WITH_ARGUMENTS || (uintptr_t)place % 2 != 0)
        return false;
    return row->kind == END ? *place == RETURN : place[0] == (JUMP_OVER & 0xff) && place[1] == JUMP_OVER >> 8;
}

static void note_sleds(const struct map_row *rows, size_t count, uintptr_t low, uintptr_t end)
{
    uint8_t *stubs = make_stubs(low);
    struct sled *grown = stubs == NULL ? NULL : realloc(sleds, (sled_count + count) * sizeof *sleds);
    if (grown == NULL)
        return;
    sleds = grown;
    for (size_t number = 0; number < count && sled_count < MOST_SLEDS; number++) {
        uint8_t *place = (uint8_t *)((uintptr_t)&rows[number].place + (uintptr_t)rows[number].place);
        Key function = (Key)((uintptr_t)&rows[number].function + (uintptr_t)rows[number].function);
        bool is_inside = (uintptr_t)place >= low && (uintptr_t)place + SLED_BYTES <= end;
        if (is_inside && is_as_compiled(&rows[number], place))
            sleds[sled_count++] = (struct sled){function, place, stubs, rows[number].kind};
    }
}

static int look_at_binary(struct dl_phdr_info *module, size_t size, void *unused)
{
    (void)size, (void)unused;
    const struct map_row *rows;
    size_t count;
    const char *path = *module->dlpi_name == '\0' ? "/proc/self/exe" : module->dlpi_name;
    /* The system's own have none, and are many. */
    bool is_systems = strncmp(path, "/lib/", 5) == 0 || strncmp(path, "/usr/lib/", 9) == 0;
    if (is_systems || !find_table(path, module->dlpi_addr, &rows, &count))
        return 0;
    for (unsigned number = 0; number < module->dlpi_phnum; number++) {
        const ElfW(Phdr) *header = &module->dlpi_phdr[number];
        uintptr_t low = module->dlpi_addr + header->p_vaddr;
        if (header->p_type == PT_LOAD && header->p_flags & PF_X)
            note_sleds(rows, count, low, low + header->p_memsz);
    }
    return 0;
}

static int compare_sleds(const void *one, const void *other)
{
    const struct sled *a = one, *b = other;
    return a->function != b->function ? (a->function > b->function) - (a->function < b->function)
                                      : (a->place > b->place) - (a->place < b->place);
}

bool find_sleds(void)
{
    dl_iterate_phdr(look_at_binary, NULL);
    if (is_refused)
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
    low &= ~(uintptr_t)(PAGE - 1);
    return mprotect((void *)low, end - low, protection) == 0;
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
    if (*obstacle == NULL && is_refused)
        *obstacle = "the system does not let a program make code";
    for (uint32_t first = 0, count; first < sled_count && *obstacle == NULL; first += count) {
        count = count_of_function(first);
        if (!protect(first, count, PROT_READ | PROT_WRITE | PROT_EXEC)) {
            *obstacle = "the system does not let a program change its code";
            continue;
        }
        for (uint32_t number = first; number < first + count; number++)
            write_rest(&sleds[number], number);
        /* Ends first, so that each call that begins can end. */
        for (uint32_t number = first + count; number-- > first;)
            write_first(&sleds[number], true);
        protect(first, count, PROT_READ | PROT_EXEC);
    }
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
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
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
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
