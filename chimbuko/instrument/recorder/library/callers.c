/* The unwinder takes some us for a stack. So what it has found is kept with the places of the return addresses: where
 * these are what they were, so is the stack.
 *
 * Two calls of MPI may lie in one call of a function, or in two. The frame does not tell these apart, but its code does:
 * in one call the way from the first place to the second one does not lead through a return. */
#define _GNU_SOURCE
#include "callers.h"

#include "budget.h"

bool has_functions;

#ifdef __x86_64__

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unwind.h>

#include "machinecode.h"

enum { MOST_FRAMES = 40, CHAINS = 256, WAYS = 512, MOST_STARTING = 4 };
#define SHARE 0.25 /* of the budget: for the search, and as much for what is found */
#define FIRST_CREDIT_NS 20e6
#define FIRST_CALLS 2000.0

struct caller {
    Key function;
    uintptr_t slot; /* where the address lies to which the function that it calls returns */
    uintptr_t site; /* that address */
};

/* A call of a function that goes on. */
struct open_caller {
    Key function;
    uintptr_t base; /* where the address lies to which it returns itself */
    uintptr_t site; /* where it was when it was seen last */
};

/* A stack, from the innermost function to the outermost one. */
struct chain {
    uint32_t count;
    uint32_t own; /* of these, without those that start a program or a thread; one follows */
    struct caller callers[MOST_FRAMES];
};

struct way {
    uintptr_t from, to;
    bool is_there;
};

struct search {
    struct chain chains[CHAINS];
    struct way ways[WAYS];
    struct open_caller open[MOST_FRAMES]; /* the outermost first */
    struct places places;
    int64_t filled_ns;
    double credit_ns, credit_calls;
};

static __thread struct search *search __attribute__((tls_model("initial-exec")));
static pthread_once_t is_prepared = PTHREAD_ONCE_INIT;
static uintptr_t libc_low, libc_end;
static bool is_sought;

static int note_libc(struct dl_phdr_info *module, size_t size, void *unused)
{
    (void)size, (void)unused;
    for (unsigned number = 0; number < module->dlpi_phnum; number++) {
        const ElfW(Phdr) *header = &module->dlpi_phdr[number];
        uintptr_t low = module->dlpi_addr + header->p_vaddr, here = (uintptr_t)&gnu_get_libc_version;
        if (header->p_type != PT_LOAD || here < low || here >= low + header->p_memsz)
            continue;
        libc_low = low;
        libc_end = low + header->p_memsz;
        return 1;
    }
    return 0;
}

/* The functions of an interpreter are not the program's. */
static void prepare_search(void)
{
    dl_iterate_phdr(note_libc, NULL);
    is_sought = libc_low != 0 && dlsym(RTLD_DEFAULT, "Py_IsInitialized") == NULL;
}

static bool is_in_libc(uintptr_t address) { return address >= libc_low && address < libc_end; }

struct unwinding_stack {
    struct chain *chain;
    uintptr_t first_slot;
};

/* A stack that is not understood to its end has no callers. */
static _Unwind_Reason_Code note_caller(struct _Unwind_Context *context, void *data)
{
    struct unwinding_stack *unwinding = data;
    struct chain *chain = unwinding->chain;
    uintptr_t slot = (uintptr_t)_Unwind_GetCFA(context) - sizeof slot, site = (uintptr_t)_Unwind_GetIP(context);
    /* Behind the outermost one there is one more, of no function. */
    if (slot < unwinding->first_slot || site == 0)
        return _URC_NO_REASON;
    bool is_sound = chain->count > 0 ? slot > chain->callers[chain->count - 1].slot : slot == unwinding->first_slot;
    if (chain->count == MOST_FRAMES || !is_sound || !is_in_stack(slot) || *(const uintptr_t *)slot != site) {
        chain->count = 0;
        return _URC_NORMAL_STOP;
    }
    chain->callers[chain->count++] = (struct caller){(Key)_Unwind_GetRegionStart(context), slot, site};
    return _URC_NO_REASON;
}

/* Number of functions without those in which a program or a thread starts, which are in the C library, but for one
 * around them. 0 where there are none: then the unwinder did not come to the end. */
static uint32_t own_callers(const struct chain *chain)
{
    uint32_t own = chain->count, least = own > MOST_STARTING ? own - MOST_STARTING : 0;
    while (own > least && !is_in_libc(chain->callers[own - 1].site))
        own--;
    if (own == least)
        return 0;
    while (own > 0 && is_in_libc(chain->callers[own - 1].site))
        own--;
    return own;
}

static bool is_as_before(const struct chain *chain, uintptr_t slot, uintptr_t site)
{
    if (chain->count == 0 || chain->callers[0].slot != slot || chain->callers[0].site != site ||
        !is_in_stack(chain->callers[chain->count - 1].slot))
        return false;
    for (uint32_t number = 1; number < chain->count; number++)
        if (*(const uintptr_t *)chain->callers[number].slot != chain->callers[number].site)
            return false;
    return true;
}

static void fill_credit(int64_t now)
{
    double passed_ns = (double)(now - search->filled_ns) * SHARE * process->overhead;
    search->filled_ns = now;
    search->credit_ns += passed_ns;
    search->credit_calls += passed_ns / CALL_PRICE_NS;
    if (search->credit_ns > FIRST_CREDIT_NS)
        search->credit_ns = FIRST_CREDIT_NS;
    if (search->credit_calls > FIRST_CALLS)
        search->credit_calls = FIRST_CALLS;
}

/* The stack from which a call is made; NULL where it is not known, or may not be looked for now. */
static const struct chain *chain_at(uintptr_t slot, uintptr_t site)
{
    uint64_t mixed = (slot ^ site << 20) * UINT64_C(0x9e3779b97f4a7c15);
    struct chain *chain = &search->chains[mixed >> 56];
    if (LIKELY(is_as_before(chain, slot, site)))
        return chain;
    int64_t begun = now_ns();
    fill_credit(begun);
    chain->count = 0;
    if (search->credit_ns <= 0) {
        atomic_fetch_add_explicit(&process->calls_without_caller, 1, memory_order_relaxed);
        return NULL;
    }
    struct unwinding_stack unwinding = {chain, slot};
    _Unwind_Backtrace(note_caller, &unwinding);
    chain->own = own_callers(chain);
    search->credit_ns -= (double)(now_ns() - begun);
    return chain->count > 0 ? chain : NULL;
}

/* Whether a call of a function that was at `from` can come to `to`. */
static bool is_way(uintptr_t from, uintptr_t to)
{
    struct way *way = &search->ways[((from ^ to << 13) * UINT64_C(0x9e3779b97f4a7c15)) >> 55];
    if (LIKELY(way->from == from && way->to == to))
        return way->is_there;
    int64_t begun = now_ns();
    *way = (struct way){from, to, has_way((const uint8_t *)from, (const uint8_t *)to, &search->places)};
    search->credit_ns -= (double)(now_ns() - begun);
    return way->is_there;
}

/* Number of the open functions whose calls go on, the outermost first, in a stack. */
static uint32_t count_going_on(const struct chain *chain)
{
    uint32_t common = 0;
    while (common < self.callers && common < chain->own) {
        const struct open_caller *open = &search->open[common];
        const struct caller *now = &chain->callers[chain->own - 1 - common];
        if (open->function != now->function || open->base != now[1].slot)
            break;
        common++;
        if (open->site != now->site)
            break;
    }
    /* The last of these, which went on to another place, or to the same one again, may have been called again: then so
     * does the one that has called it. */
    while (common > 0 && !is_way(search->open[common - 1].site, chain->callers[chain->own - common].site))
        common--;
    return common;
}

/* End functions that were left at some time after the last call of MPI in them: what follows is their callers'. */
static void end_above(uint32_t depth)
{
    int64_t last = self.events[(self.written - 1) & self.mask].time_ns;
    while (self.depth > depth)
        pop_call(last, 0);
    self.callers = depth;
}

static void open_callers(const struct chain *chain)
{
    uint32_t missing = chain->own - self.callers;
    int64_t now = now_ns();
    fill_credit(now);
    if (search->credit_calls < missing || !has_room(self.depth + missing + 2 + RESERVE)) {
        atomic_fetch_add_explicit(&process->calls_without_caller, 1, memory_order_relaxed);
        return;
    }
    search->credit_calls -= missing;
    while (self.callers < chain->own) {
        const struct caller *caller = &chain->callers[chain->own - 1 - self.callers];
        search->open[self.callers++] = (struct open_caller){caller->function, caller[1].slot, caller->site};
        push_call(caller->function, ANY_FRAME, 0, now);
    }
}

static void follow(uintptr_t slot, uintptr_t site, bool is_region)
{
    const struct chain *chain = chain_at(slot, site);
    uint32_t common = chain == NULL ? 0 : count_going_on(chain);
    if (common < self.callers)
        end_above(common);
    if (chain == NULL)
        return;
    for (uint32_t number = 0; number < common; number++)
        search->open[number].site = chain->callers[chain->own - 1 - number].site;
    /* Between a region and its function may stand others that belong to us. */
    if (common < chain->own && !is_region)
        open_callers(chain);
}

static bool begin_search(void)
{
    pthread_once(&is_prepared, prepare_search);
    if (!is_sought || self.is_off)
        return false;
    void *made = mmap(NULL, sizeof *search, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED)
        return false;
    search = made;
    search->filled_ns = now_ns();
    search->credit_ns = FIRST_CREDIT_NS;
    search->credit_calls = FIRST_CALLS;
    return true;
}

void find_callers(Key called, uintptr_t frame, uintptr_t site, bool is_region)
{
    if (is_only_counting || self.is_off || (search == NULL && !begin_search()) || !acquire())
        return;
    /* Within a region, or on a stack of the program's own, they are not looked for. */
    bool is_here = self.stacks == NULL && self.skipped == 0 && self.depth == self.callers && self.depth < DEPTH / 2;
    if (is_here && function_of(called)->state == RECORDED)
        follow(frame + sizeof frame, site, is_region);
    release();
}

void end_callers(void)
{
    if (search == NULL || self.ring == NULL || self.callers == 0 || !acquire())
        return;
    if (self.stacks == NULL && self.depth == self.callers) {
        end_above(self.depth > 1 ? 1 : self.depth);
        pop_call(now_ns(), 0);
    }
    self.callers = 0;
    release();
}

void forget_callers_of_thread(void)
{
    if (search != NULL)
        munmap(search, sizeof *search);
    search = NULL;
}

#else

void find_callers(Key called, uintptr_t frame, uintptr_t site, bool is_region)
{
    (void)called, (void)frame, (void)site, (void)is_region;
}

void end_callers(void) {}

void forget_callers_of_thread(void) {}

#endif
