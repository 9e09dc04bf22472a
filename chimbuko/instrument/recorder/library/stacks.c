/* Stacks of one thread: its own, that of signals' handlers, and those that the program switches to by itself, as of
 * coroutines and of user-level threads. Nobody says where these are. An unknown stack is told by the outermost frame
 * that an unwinder finds from a place on it, and is a lane of its own from then on: the calls on it nest. A look-up
 * among the known stacks takes the nearest end above the frame. One on which this thread has not been so deep yet
 * is unwound again, for each page, as there may be another one that is not known yet. */
#define _GNU_SOURCE
#include "recorder.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unwind.h>

/* The analysis takes 4,096 threads of a process, its lanes among them. */
enum { STACKS = 3072, PAGE = 4096, MOST_FRAMES = 1 << 16, MOST_PROLOGUE = 512 };

struct open_call {
    Key key;
    int64_t entry_ns;
    uintptr_t frame, site;
};

/* A lane, as it was when its stack was left. */
struct lane {
    uint32_t number;
    uint32_t depth;
    uint32_t skipped;
    Key skipped_key;
    uintptr_t skipped_frame;
    int64_t last_ns; /* of its last event */
    struct open_call *calls;
};

/* A part of the memory that belongs to a stack. */
struct area {
    uintptr_t low, end;
    struct lane *lane;
};

struct stacks {
    uint32_t lane_count, area_count;
    struct lane *present;
    struct lane *coming; /* while the thread's state becomes that of this lane, which may be interrupted */
    uint32_t suspended;  /* after that */
    struct area areas[STACKS]; /* by their ends */
    struct lane lanes[STACKS]; /* the first one is that of the thread's own stack */
    struct stacks *_Atomic next;
};

static struct stacks *_Atomic all_stacks; /* of all threads; who has something taken out of it holds looks */

typedef _Unwind_Reason_Code unwinder(_Unwind_Trace_Fn, void *);
static unwinder *unwind;

/* Limits of a thread's own stack, and of that of its handlers, which need no lane: their calls are part of those that
 * they interrupted. */
static __thread uintptr_t own_low, own_end, alternate_low, alternate_end
    __attribute__((tls_model("initial-exec")));
static __thread bool is_on_alternate __attribute__((tls_model("initial-exec")));

void prepare_stacks(void)
{
    /* The crash handlers' first backtrace has loaded it. */
    void *library = dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library != NULL)
        unwind = (unwinder *)dlsym(library, "_Unwind_Backtrace");
}

static void run_in(uintptr_t low, uintptr_t end)
{
    self.stack_low = low;
    self.stack_bytes = end - low;
}

/* Note where this thread's stack is; where that is not known all is taken for one. */
void note_own_stack(void)
{
    pthread_attr_t attributes;
    void *low;
    size_t size;
    own_low = 0;
    own_end = UINTPTR_MAX;
    is_on_alternate = false;
    alternate_low = alternate_end = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        if (pthread_attr_getstack(&attributes, &low, &size) == 0) {
            own_low = (uintptr_t)low;
            own_end = own_low + size;
        }
        pthread_attr_destroy(&attributes);
    }
    run_in(own_low, own_end);
}

/* An end of a thread after which nothing may be recorded, nor counted. */
void forget_own_stack(void) { run_in(0, 0); }

static bool is_alternate(uintptr_t frame) { return frame >= alternate_low && frame < alternate_end; }

/* Whether a signal's handler runs on a stack of its own. */
static bool has_come_to_alternate(uintptr_t frame)
{
    stack_t found;
    if (sigaltstack(NULL, &found) != 0 || (found.ss_flags & SS_ONSTACK) == 0)
        return false;
    alternate_low = (uintptr_t)found.ss_sp;
    alternate_end = alternate_low + found.ss_size;
    return is_alternate(frame);
}

/* Whether the function of a frame that recorded runs no more, as now one of another frame wants to. */
bool is_stack_left(uintptr_t frame, uintptr_t now)
{
    if (is_alternate(now) || (!is_in_stack(now) && has_come_to_alternate(now)))
        return is_alternate(frame) && now >= frame;
    /* Who has switched to another stack has left the recorder, too. */
    return is_alternate(frame) || !is_in_stack(now) || now >= frame;
}

struct outermost {
    uintptr_t frame;
    unsigned frames;
};

static _Unwind_Reason_Code note_frame(struct _Unwind_Context *context, void *found)
{
    struct outermost *outermost = found;
    outermost->frame = (uintptr_t)_Unwind_GetCFA(context);
    return ++outermost->frames < MOST_FRAMES ? _URC_NO_REASON : _URC_NORMAL_STOP;
}

/* Address of the outermost frame of the stack on which this runs; where nothing tells, the end of its page. */
static uintptr_t outermost_frame(uintptr_t frame)
{
    struct outermost outermost = {0};
    if (unwind != NULL)
        unwind(note_frame, &outermost);
    return outermost.frame > frame ? outermost.frame : (frame | (PAGE - 1)) + 1;
}

/* Place of the first area that ends above a frame. */
static uint32_t area_above(const struct stacks *stacks, uintptr_t frame)
{
    uint32_t first = 0, last = stacks->area_count;
    while (first < last) {
        uint32_t middle = (first + last) / 2;
        if (stacks->areas[middle].end > frame)
            last = middle;
        else
            first = middle + 1;
    }
    return first;
}

static struct area *add_area(struct stacks *stacks, uintptr_t low, uintptr_t end, struct lane *lane)
{
    if (stacks->area_count == STACKS)
        return NULL;
    uint32_t place = area_above(stacks, end - 1);
    struct area *area = &stacks->areas[place];
    memmove(area + 1, area, (stacks->area_count++ - place) * sizeof *area);
    *area = (struct area){low, end, lane};
    return area;
}

static struct lane *add_lane(struct stacks *stacks)
{
    if (stacks->lane_count == STACKS)
        return NULL;
    /* Only the pages of calls that are open are ever used. */
    struct open_call *calls = mmap(NULL, DEPTH * sizeof *calls, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (calls == MAP_FAILED)
        return NULL;
    struct lane *lane = &stacks->lanes[stacks->lane_count++];
    *lane = (struct lane){.calls = calls, .skipped_frame = ANY_FRAME};
    return lane;
}

static bool begin_stacks(void)
{
    struct stacks *made =
        mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED)
        return false;
    struct lane *own = add_lane(made);
    if (own != NULL) {
        own->number = self.lane;
        made->present = own;
        add_area(made, own_low, own_end, own);
        self.stacks = made;
        struct stacks *first = atomic_load(&all_stacks);
        do
            atomic_store(&made->next, first);
        while (!atomic_compare_exchange_weak(&all_stacks, &first, made));
    }
    return own != NULL;
}

/* Area in which a frame lies; NULL where none is known. */
static struct area *known_area(struct stacks *stacks, uintptr_t frame)
{
    uint32_t place = area_above(stacks, frame);
    bool is_known = place < stacks->area_count && frame >= stacks->areas[place].low;
    return is_known ? &stacks->areas[place] : NULL;
}

/* Area of a frame for which none was known, which may be that of a new stack; NULL where there are too many: then
 * no call is worth an unwinding. */
static struct area *new_area(struct stacks *stacks, uintptr_t frame)
{
    if (stacks->area_count == STACKS || atomic_load(&process->thread_count) >= STACKS)
        return NULL;
    uintptr_t page = frame & ~(uintptr_t)(PAGE - 1);
    uint32_t place = area_above(stacks, frame);
    uintptr_t below = place == 0 ? 0 : stacks->areas[place - 1].end;
    uintptr_t low = page > below ? page : below, end = outermost_frame(frame);
    if (place < stacks->area_count && end == stacks->areas[place].end) {
        stacks->areas[place].low = low;
        return &stacks->areas[place];
    }
    /* A segment of the thread's own stack, as by gcc's -fsplit-stack. */
    if (end > own_low && end <= own_end)
        return add_area(stacks, low, page + PAGE, &stacks->lanes[0]);
    struct lane *lane = add_lane(stacks);
    if (lane == NULL)
        return NULL;
    lane->number = next_number(0);
    self.ring->lanes++;
    return add_area(stacks, low, end, lane);
}

static void suspend(struct lane *lane)
{
    struct ring *ring = self.ring;
    for (uint32_t each = 0; each < self.depth; each++)
        lane->calls[each] =
            (struct open_call){ring->stack[each], ring->entry_ns[each], ring->frame[each], ring->site[each]};
    lane->depth = self.depth;
    lane->skipped = self.skipped;
    lane->skipped_key = self.skipped_key;
    lane->skipped_frame = self.skipped_frame;
    lane->last_ns = self.written == 0 ? 0 : self.events[(self.written - 1) & self.mask].time_ns;
}

/* Make the lane that is coming the present one. Nothing is lost where this is interrupted, and done again. */
void resume_stack(void)
{
    struct stacks *stacks = self.stacks;
    struct lane *lane = stacks->coming;
    struct ring *ring = self.ring;
    if (lane == NULL)
        return;
    for (uint32_t each = 0; each < lane->depth; each++) {
        ring->stack[each] = lane->calls[each].key;
        ring->entry_ns[each] = lane->calls[each].entry_ns;
        ring->frame[each] = lane->calls[each].frame;
        ring->site[each] = lane->calls[each].site;
    }
    atomic_store_explicit(&ring->depth, lane->depth, memory_order_relaxed);
    self.depth = lane->depth;
    self.skipped = lane->skipped;
    self.skipped_key = lane->skipped_key;
    self.skipped_frame = lane->skipped_frame;
    self.lane = lane->number;
    self.is_lane_unsaid = true;
    self.suspended = stacks->suspended;
    self.read = atomic_load_explicit(&ring->read, memory_order_acquire) - self.suspended;
    begin_event(self.depth);
    stacks->present = lane;
    atomic_signal_fence(memory_order_seq_cst);
    stacks->coming = NULL;
}

static void change_lane(struct lane *lane)
{
    struct stacks *stacks = self.stacks;
    suspend(stacks->present);
    stacks->suspended = self.suspended + self.depth - lane->depth;
    atomic_signal_fence(memory_order_seq_cst);
    stacks->coming = lane;
    atomic_signal_fence(memory_order_seq_cst);
    resume_stack();
}

/* End the calls that were left with the stack on which they ran. */
static void leave_alternate(void)
{
    while (self.depth > 0 && is_alternate(self.ring->frame[self.depth - 1]))
        pop_call(now_ns(), 0);
    is_on_alternate = false;
}

static void come_to_alternate(void)
{
    run_in(alternate_low, alternate_end);
    is_on_alternate = true;
}

/* Whether the innermost call was given up with its stack, which is used again: another function begins where it, or
 * what called it, began. One that is part of it would call us from afar. */
static bool is_given_up(uintptr_t frame, Key called, uintptr_t from)
{
    uintptr_t its = self.ring->frame[self.depth - 1];
    return is_gone(its, frame) || (its == frame && from - called < MOST_PROLOGUE);
}

/* Change to the lane of a stack that is not the present one; false where there are too many stacks. */
static bool come_to_area(uintptr_t frame, Key called, uintptr_t from)
{
    struct stacks *stacks = self.stacks;
    struct area *area = known_area(stacks, frame);
    if (area == NULL && (area = new_area(stacks, frame)) == NULL) {
        if (called != 0)
            atomic_fetch_add_explicit(&self.ring->stackless_calls, 1, memory_order_relaxed);
        return false;
    }
    bool is_other = area->lane != stacks->present;
    if (is_other)
        change_lane(area->lane);
    run_in(area->low, area->end);
    while (is_other && called != 0 && self.depth > 0 && is_given_up(frame, called, from))
        pop_call(area->lane->last_ns, LEFT_EARLIER);
    return true;
}

#ifdef __x86_64__
/* A stack that a program has made need not be aligned as the unwinder wants it. */
#define ALIGNED __attribute__((force_align_arg_pointer))
#else
#define ALIGNED
#endif

/* The thread runs on another stack than at its last event, or has none yet; false where it is not recorded.
 * `called` is a function that begins, else 0, and `from` is where its code has called the recorder. */
ALIGNED bool come_to_stack(uintptr_t frame, Key called, uintptr_t from)
{
    if (self.ring == NULL && !begin_thread())
        return false;
    if (is_in_stack(frame) || is_only_counting)
        return true;
    if (is_alternate(frame)) {
        come_to_alternate();
        return true;
    }
    if (is_on_alternate)
        leave_alternate();
    bool is_own = frame - own_low < own_end - own_low;
    if (is_own && self.stacks == NULL) {
        run_in(own_low, own_end);
        return true;
    }
    bool is_new = !is_own && (self.stacks == NULL || known_area(self.stacks, frame) == NULL);
    if (is_new && has_come_to_alternate(frame)) {
        come_to_alternate();
        return true;
    }
    return (self.stacks != NULL || begin_stacks()) && come_to_area(frame, called, from);
}

/* Calls of a stack that its thread has come to again stay what they were there, as long as they are open. */
bool is_suspended(Key key)
{
    for (const struct stacks *stacks = atomic_load(&all_stacks); stacks != NULL; stacks = atomic_load(&stacks->next))
        for (uint32_t each = 0; each < stacks->lane_count; each++) {
            const struct lane *lane = &stacks->lanes[each];
            for (uint32_t call = 0; call < lane->depth; call++)
                if (lane->calls[call].key == key)
                    return true;
        }
    return false;
}

/* In a forked child: the other threads, and what is open on their stacks, are its parent's. */
void forget_stacks(void) { atomic_store(&all_stacks, NULL); }

static void take_out(struct stacks *stacks)
{
    struct stacks *first = stacks;
    hold_looks();
    if (!atomic_compare_exchange_strong(&all_stacks, &first, atomic_load(&stacks->next))) {
        while (atomic_load(&first->next) != stacks)
            first = atomic_load(&first->next);
        atomic_store(&first->next, atomic_load(&stacks->next));
    }
    release_looks();
}

/* End the calls that are open on other stacks, as their thread ends. */
void end_stacks(int64_t now)
{
    struct stacks *stacks = self.stacks;
    if (stacks == NULL)
        return;
    for (uint32_t each = 0; each < stacks->lane_count; each++) {
        struct lane *lane = &stacks->lanes[each];
        if (lane != stacks->present)
            change_lane(lane);
        while (self.depth > 0)
            pop_call(now, LEFT_EARLIER);
    }
    self.stacks = NULL;
    take_out(stacks);
    for (uint32_t each = 0; each < stacks->lane_count; each++)
        munmap(stacks->lanes[each].calls, DEPTH * sizeof(struct open_call));
    munmap(stacks, sizeof *stacks);
}
