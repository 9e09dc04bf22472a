#define _GNU_SOURCE
#include "binaries.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

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

/* Below the binary, as above the program lies its heap, which grows. From here all of memory can be reached. */
uint8_t *make_stubs(uintptr_t lowest, const void *const *targets, unsigned count)
{
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
