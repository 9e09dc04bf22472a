#define _GNU_SOURCE
#include "binaries.h"

#include "prepared.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { PAGE = 4096, MOST_SECTIONS = 4096, NAME_SIZE = 64, SEARCH_STEPS = 1 << 14 };

bool is_code_refused;

struct sought {
    const char *section;
    void (*note)(const struct segment *);
};

/* Find a section by the file of its binary, as it is not said where it lies in memory. */
static bool find_section(const char *path, uintptr_t base, const char *wanted, struct segment *segment)
{
    ElfW(Ehdr) head;
    char name[NAME_SIZE];
    bool is_found = false;
    size_t length = strlen(wanted) + 1;
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
            off_t place = (off_t)(sections[head.e_shstrndx].sh_offset + sections[number].sh_name);
            if (!(sections[number].sh_flags & SHF_ALLOC) ||
                pread(file, name, length, place) != (ssize_t)length || memcmp(name, wanted, length) != 0)
                continue;
            segment->section = (const void *)(base + sections[number].sh_addr);
            segment->section_bytes = sections[number].sh_size;
            is_found = true;
        }
    free(sections);
    close(file);
    return is_found;
}

static int look_at_binary(struct dl_phdr_info *module, size_t size, void *data)
{
    (void)size;
    const struct sought *sought = data;
    struct segment segment;
    const char *path = *module->dlpi_name == '\0' ? "/proc/self/exe" : module->dlpi_name;
    bool is_systems = strncmp(path, "/lib/", 5) == 0 || strncmp(path, "/usr/lib/", 9) == 0;
    if (is_systems || !find_section(path, module->dlpi_addr, sought->section, &segment))
        return 0;
    for (unsigned number = 0; number < module->dlpi_phnum; number++) {
        const ElfW(Phdr) *header = &module->dlpi_phdr[number];
        segment.low = module->dlpi_addr + header->p_vaddr;
        segment.end = segment.low + header->p_memsz;
        if (header->p_type == PT_LOAD && header->p_flags & PF_X)
            sought->note(&segment);
    }
    return 0;
}

void for_segments_with(const char *section, void (*note)(const struct segment *))
{
    struct sought sought = {section, note};
    dl_iterate_phdr(look_at_binary, &sought);
}

struct held {
    void (*act)(void *);
    void *data;
};

static int act_once(struct dl_phdr_info *module, size_t size, void *data)
{
    (void)module, (void)size;
    const struct held *held = data;
    held->act(held->data);
    return 1;
}

void with_binaries_held(void (*act)(void *), void *data)
{
    struct held held = {act, data};
    dl_iterate_phdr(act_once, &held);
}

static int note_loaded(struct dl_phdr_info *module, size_t size, void *count)
{
    (void)size;
    *(unsigned long long *)count = module->dlpi_adds;
    return 1;
}

unsigned long long count_loaded(void)
{
    unsigned long long count = 0;
    dl_iterate_phdr(note_loaded, &count);
    return count;
}

#if defined(__x86_64__)
/* Number of the register that says which parts of vectors are in use (1), or else which there are (0); -1 where there
 * are the lower 16 bytes of each only. */
__attribute__((visibility("hidden"))) int32_t chimbuko_register_of_parts = -1;

enum { PARTS = 0xd, HAS_PARTS_IN_USE = 1 << 2 };

static void find_register_of_parts(void)
{
    unsigned features, in_use, unused;
    if (!__get_cpuid(1, &unused, &unused, &features, &unused) || !(features & bit_OSXSAVE) || !(features & bit_AVX))
        return;
    bool is_known = __get_cpuid_count(PARTS, 1, &in_use, &unused, &unused, &unused) && in_use & HAS_PARTS_IN_USE;
    chimbuko_register_of_parts = is_known ? 1 : 0;
}

/* Move eight vectors to the stack or back, below which lies the address to which this returns. */
#define EIGHT(first, second)                                                                                  \
    ".irp number, 0, 1, 2, 3, 4, 5, 6, 7\n " first "8 + " VECTORS " + 64 * \\number(%rsp)" second "\n .endr\n"

/* To read upper parts that are empty would make them be in use, which slows down code that knows none. Those of the
 * lower 16 bytes only become empty again, whatever has used them meanwhile. */
__asm__(".text\n.globl chimbuko_keep_vectors\n.hidden chimbuko_keep_vectors\n"
        ".type chimbuko_keep_vectors, @function\nchimbuko_keep_vectors:\n.cfi_startproc\n"
        "mov chimbuko_register_of_parts(%rip), %ecx\n xor %eax, %eax\n test %ecx, %ecx\n js 0f\n xgetbv\n"
        "test $0x40, %al\n jnz 2f\n test $4, %al\n jnz 1f\n"
        "0: " EIGHT("movups %xmm\\number, ", "") "ret\n"
        "1: " EIGHT("vmovups %ymm\\number, ", "") "vzeroupper\n ret\n"
        "2: " EIGHT("vmovups %zmm\\number, ", "") "vzeroupper\n ret\n"
        ".cfi_endproc\n.size chimbuko_keep_vectors, .-chimbuko_keep_vectors\n"
        ".globl chimbuko_give_vectors\n.hidden chimbuko_give_vectors\n"
        ".type chimbuko_give_vectors, @function\nchimbuko_give_vectors:\n.cfi_startproc\n"
        "test $0x40, %al\n jnz 2f\n test $4, %al\n jnz 1f\n cmpl $0, chimbuko_register_of_parts(%rip)\n jge 3f\n"
        EIGHT("movups ", ", %xmm\\number") "ret\n"
        "1: " EIGHT("vmovups ", ", %ymm\\number") "ret\n"
        "2: " EIGHT("vmovups ", ", %zmm\\number") "ret\n"
        "3: " EIGHT("vmovups ", ", %xmm\\number") "ret\n"
        ".cfi_endproc\n.size chimbuko_give_vectors, .-chimbuko_give_vectors\n");
#else
static void find_register_of_parts(void) {}
#endif

/* Below the binary, as above the program lies its heap, which grows. From here all of memory can be reached. */
uint8_t *make_stubs(uintptr_t lowest, const void *const *targets, unsigned count)
{
    find_register_of_parts();
    uintptr_t wanted = lowest & ~(uintptr_t)(PAGE - 1);
    uint8_t *page = MAP_FAILED;
    for (int step = 1; step < SEARCH_STEPS && page == MAP_FAILED && wanted > 32 * PAGE; step++) {
        wanted -= 16 * PAGE;
        page = mmap((void *)wanted, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
                    -1, 0);
    }
    if (page == MAP_FAILED)
        return NULL;
    for (unsigned number = 0; number < count; number++) {
        memcpy(page + number * STUB_BYTES, "\xff\x25\0\0\0\0", 6); /* jmp to what follows */
        memcpy(page + number * STUB_BYTES + 6, &targets[number], sizeof targets[number]);
    }
    if (mprotect(page, PAGE, PROT_READ | PROT_EXEC) == 0)
        return page;
    is_code_refused = true;
    munmap(page, PAGE);
    return NULL;
}

bool protect_code(uintptr_t low, uintptr_t end, int protection)
{
    low &= ~(uintptr_t)(PAGE - 1);
    return mprotect((void *)low, end - low, protection) == 0;
}

void show_code(void) { syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0); }
