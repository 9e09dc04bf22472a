// Observer of PyTorch's operators and of its collective operations. It is built with the headers of the PyTorch that
// the program has, and writes by the recorder's functions. It costs a call of an operator some 0.1 us.
//
// Operators that are part of another one are not recorded. Gloo's collective operations run on threads that each group
// of processes has for itself, one after the other: so the thread tells the group, and their order the number.
#include <ATen/record_function.h>

#include <atomic>
#include <cstring>
#include <ctime>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "chimbuko.h"

// Functions of the recorder that programs do not call.
extern "C" {
unsigned chimbuko_group(uint64_t identity, unsigned size, int rank);
void chimbuko_waited(unsigned name, int64_t begin_ns, unsigned group, int number);
}

namespace
{
using at::RecordScope;

enum { DEPTH = 64, NAMES = 1024, LONGEST = 200, THREADS = 4096, RECENT = 8, SHORTEST_WAIT_NS = 20000 };

std::atomic<bool> is_off{true};

// A group of processes, by the threads that run its operations.
struct Group {
    std::atomic<int> thread{0};
    unsigned number = 0; // for the recorder
    std::atomic<int> *count = nullptr;
};
Group groups[THREADS];
std::atomic<int> counts[THREADS];
std::atomic<int> group_count{0};

// The operations that began last, for those who wait for them.
struct Operation {
    std::atomic<int64_t> end_ns{0};
    unsigned name = 0, group = 0;
    int number = 0;
};
Operation recent[RECENT];
std::atomic<unsigned> begun{0};

struct Thread {
    unsigned depth = 0, operators = 0;
    unsigned open[DEPTH] = {};
    int64_t last_ns = 0; // end of the last operator of a backward pass, or its beginning; 0 outside of any
    unsigned known_begun = 0; // number of operations that had begun before that pass
    const Group *group = nullptr;
    bool is_known = false;
    Operation *running = nullptr;
    struct {
        uint64_t hash;
        unsigned name;
    } names[NAMES] = {};
};
thread_local Thread self;

int64_t now_ns()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

uint64_t hash_of(const char *text)
{
    uint64_t hash = 1469598103934665603u;
    size_t length = strlen(text);
    for (; length >= 8; text += 8, length -= 8) {
        uint64_t part;
        memcpy(&part, text, 8);
        hash = (hash ^ part) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    uint64_t rest = length;
    memcpy(&rest, text, length);
    hash = (hash ^ rest ^ length << 56) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

// The name under which an operator is recorded: PyTorch puts a class or a number behind some, as SGD.step and
// ProfilerStep#7.
unsigned shown_name(const char *name)
{
    static const char engine[] = "autograd::engine::evaluate_function: ";
    char shown[LONGEST];
    if (strncmp(name, engine, sizeof engine - 1) == 0)
        name += sizeof engine - 1;
    const char *mark = strrchr(name, '#');
    bool is_number = mark != nullptr && mark[1] != '\0' && mark[1 + strspn(mark + 1, "0123456789")] == '\0';
    if (mark != nullptr && !is_number)
        name = mark + 1;
    size_t length = is_number ? static_cast<size_t>(mark - name) : strlen(name);
    snprintf(shown, sizeof shown, "%.*s", static_cast<int>(length), name);
    return chimbuko_name(shown);
}

unsigned number_of(const char *name)
{
    uint64_t hash = hash_of(name);
    auto &slot = self.names[hash % NAMES];
    if (slot.hash != hash)
        slot = {hash, shown_name(name)};
    return slot.name;
}

const Group *group_of_thread()
{
    if (!self.is_known) {
        self.is_known = true;
        int thread = static_cast<int>(syscall(SYS_gettid));
        for (int at = 0, end = group_count; at < end; at++)
            if (groups[at].thread == thread)
                self.group = &groups[at];
    }
    return self.group;
}

void begin_collective(const Group *group, unsigned name)
{
    unsigned at = begun++ % RECENT;
    Operation *one = &recent[at];
    one->end_ns = 0;
    one->name = name;
    one->group = group->number;
    one->number = (*group->count)++;
    self.running = one;
}

// Record a wait of this thread that ends now, for the operation that began last, if that went on since.
void record_wait(int64_t since_ns)
{
    unsigned count = begun;
    const Operation *last = &recent[(count - 1) % RECENT];
    int64_t end_ns = last->end_ns;
    if (count > 0 && (end_ns == 0 || end_ns > since_ns))
        chimbuko_waited(last->name, since_ns, last->group, last->number);
}

// Between two operators of a backward pass nothing else is done but to wait for the gradients of other ranks.
void look_for_wait()
{
    if (begun != self.known_begun && now_ns() - self.last_ns >= SHORTEST_WAIT_NS)
        record_wait(self.last_ns);
}

// An operation that one thread begins and another ends, as collective ones are. Those of Gloo run on threads of their
// group: they are known by the calls that wait for them, and others are not recorded.
void start_async(const char *text)
{
    if (const Group *group = group_of_thread())
        begin_collective(group, number_of(text));
}

void end_async()
{
    if (self.running != nullptr)
        self.running->end_ns = now_ns();
    self.running = nullptr;
}

std::unique_ptr<at::ObserverContext> start(const at::RecordFunction &function)
{
    if (is_off.load(std::memory_order_relaxed))
        return nullptr;
    if (function.isAsync()) {
        start_async(function.name());
        return nullptr;
    }
    bool is_operator = function.scope() == RecordScope::FUNCTION;
    unsigned name = is_operator && self.operators > 0 ? 0 : number_of(function.name());
    if (is_operator && self.operators++ == 0 && self.last_ns != 0)
        look_for_wait();
    if (name != 0)
        chimbuko_enter(name);
    if (self.depth < DEPTH)
        self.open[self.depth] = name;
    self.depth++;
    return nullptr;
}

void end(const at::RecordFunction &function, at::ObserverContext *)
{
    if (is_off.load(std::memory_order_relaxed))
        return;
    if (function.isAsync()) {
        end_async();
        return;
    }
    // What began before this was installed ends here, too.
    if (self.depth == 0)
        return;
    self.depth--;
    if (self.depth < DEPTH && self.open[self.depth] != 0)
        chimbuko_leave(self.open[self.depth]);
    if (function.scope() == RecordScope::FUNCTION && --self.operators == 0 && self.last_ns != 0)
        self.last_ns = now_ns();
}

// A forked process, such as a worker of a data loader, has a recording of its own, by Python.
void forget() { is_off = true; }
} // namespace

extern "C" {
__attribute__((visibility("default"))) void chimbuko_torch_begin()
{
    pthread_atfork(nullptr, nullptr, forget);
    at::addGlobalCallback(
        at::RecordFunctionCallback(start, end).scopes({RecordScope::FUNCTION, RecordScope::USER_SCOPE}));
    is_off = false;
}

// Note a group whose operations run on these threads.
__attribute__((visibility("default"))) void chimbuko_torch_group(uint64_t identity, unsigned size, int rank,
                                                                 const int *threads, int count)
{
    unsigned number = chimbuko_group(identity, size, rank);
    for (int at = 0; at < count && group_count < THREADS; at++) {
        Group *made = &groups[group_count];
        made->number = number;
        made->count = &counts[number % THREADS];
        made->thread = threads[at];
        group_count++;
    }
}

// Record a wait of this thread since a time.
__attribute__((visibility("default"))) void chimbuko_torch_waited(int64_t begin_ns)
{
    if (!is_off)
        record_wait(begin_ns);
}

// Note that a backward pass of this thread begins, or ends.
__attribute__((visibility("default"))) void chimbuko_torch_backward(int is_begin)
{
    if (is_off)
        return;
    if (!is_begin && self.last_ns != 0)
        look_for_wait();
    self.known_begun = begun;
    self.last_ns = is_begin ? now_ns() : 0;
}
}
