/* Recording of the calls of Python functions, as far as a budget goes: the same one as for native programs.
 *
 * Python's own lock is held in all that is here, so that nothing needs another one. No header of Python is needed,
 * and what is compiled serves each version of it: its functions are few, and the same in all. */
#define _GNU_SOURCE
#include "budget.h"
#include "pointermap.h"
#include "work.h"

#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

typedef struct _object PyObject;
typedef int Hook(PyObject *, PyObject *, int, PyObject *);
struct method { /* PyMethodDef */
    const char *name;
    PyObject *(*call)(PyObject *, PyObject *const *, size_t);
    int flags;
    const char *text;
};

void Py_IncRef(PyObject *);
void Py_DecRef(PyObject *);
int PyList_Append(PyObject *, PyObject *);
ptrdiff_t PyList_Size(PyObject *);
PyObject *PyList_GetItem(PyObject *, ptrdiff_t);
long long PyLong_AsLongLong(PyObject *);
PyObject *PyLong_FromLongLong(long long);
PyObject *PyFrame_GetCode(PyObject *);
PyObject *PyEval_GetFrame(void);
void PyEval_SetProfile(Hook *, PyObject *);
void PyErr_Clear(void);
PyObject *PyObject_CallFunctionObjArgs(PyObject *, ...);
PyObject *PyObject_Vectorcall(PyObject *, PyObject *const *, size_t, PyObject *);
PyObject *PyCFunction_NewEx(struct method *, PyObject *, PyObject *);
typedef PyObject *Call(PyObject *, PyObject *const *, size_t, PyObject *);
Call *PyVectorcall_Function(PyObject *);

#define EXPORTED __attribute__((visibility("default")))
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* Time between two restarts for each function that Python does not tell of: to instrument it anew takes some 5 us. */
#define RESTART_NS INT64_C(500000)

/* Time by which a count is before the event at which it was read. */
#define WITHIN_NS INT64_C(2000)

enum { CALL = 0, RETURN = 3 }; /* what Python 3.11 tells a profiler */
enum { FASTCALL = 0x80 };      /* METH_FASTCALL */
enum { SKIPPED = -1 };         /* as in functions.py */
enum {
    CREDIT = 64, /* calls that a function takes from the pool at a time */
    FIRST_CREDIT = 16,
    BURST_LOOKS = 2 /* whose calls may come at once, where nothing was looked at before */
};

/* What becomes of an event: its function is new; it is recorded; it is not, and no further event of this place in
 * the code needs to be told; it is not, but others may be needed. */
enum Told { NEW, RECORDED, NEEDLESS, PASSED };

struct function {
    PyObject *entry, *exit; /* codes of its events */
    uint32_t row;
    int is_known;
};

/* What is counted for the budget; row 0 is for functions that come when all others are taken. */
struct row {
    uint64_t begun, ended, left_out;
    double squares_us2;
    uint64_t calls_before, ended_before; /* at the last look */
    double squares_before_us2;
    uint32_t credit, taken;
    int64_t counted_from_ns, counted_until_ns; /* 0: until now */
    int64_t observed_ns;                       /* end of the last time that was counted */
    int64_t uncounted_ns;                      /* when it was first not counted any more; 0 for never */
    uint64_t samples;
    uint8_t is_out, is_sampled, is_decided_out;
};

static struct map codes;      /* code objects: numbers of functions, or SKIPPED */
static struct map open_calls; /* frames whose ENTRY is recorded: when that was */
static struct function *functions;
static size_t function_capacity;
static struct row rows[MOST_FUNCTIONS];
static struct estimate estimates[MOST_FUNCTIONS];
static struct observation observations[MOST_FUNCTIONS];
static struct budget budget;
static uint32_t row_count, thread_count, look_number;
static int64_t pool; /* calls for which there is further credit until the next look */
static int64_t filled_ns, looked_ns, started_ns, restarted_ns;
static uint32_t recording; /* number of the recording */
static int is_monitored;   /* Python need not tell of what is left out */
static int is_restart_wanted;
static PyObject *none, *disable, *call_name, *return_name;

static int64_t work_numbers[WORK_COUNTS]; /* of the counters in the trace; less than 1 for none */
static int64_t (*last_of_recorder_ns)(void); /* of the recorder in this process, if there is one */

static __thread struct {
    uint32_t recording, look;
    PyObject *events; /* owned; NULL if nothing of the thread is recorded */
    PyObject *work;   /* owned, as well: rows of counters */
    uint32_t depth;   /* recorded calls that are open */
    int64_t event_ns, counted_ns; /* its last event here, and reading of its work; 0 for none */
    struct work_reader reader;
    struct work counted;
} self;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Forget all, and record from now on. */
EXPORTED void begin_recording(double overhead, int is_in_monitoring, PyObject *nothing, PyObject *not_again,
                              PyObject *call, PyObject *ending)
{
    clear(&codes);
    clear(&open_calls);
    for (size_t at = 0; at < function_capacity; at++)
        functions[at].is_known = 0;
    memset(rows, 0, sizeof rows);
    memset(estimates, 0, sizeof estimates);
    budget = (struct budget){.overhead = overhead};
    is_monitored = is_in_monitoring;
    none = nothing, disable = not_again, call_name = call, return_name = ending;
    row_count = 1;
    thread_count = look_number = 0;
    is_restart_wanted = 0;
    restarted_ns = 0;
    memset(work_numbers, 0, sizeof work_numbers);
    last_of_recorder_ns = (int64_t(*)(void))dlsym(RTLD_DEFAULT, "chimbuko_recorder_last_ns");
    started_ns = looked_ns = filled_ns = now_ns();
    rows[0].credit = FIRST_CREDIT;
    pool = (int64_t)calls_of(&budget, 1) * BURST_LOOKS;
    recording++;
}

/* Let each thread ask about its next event, and keep what was counted. */
EXPORTED void end_recording(void)
{
    recording++;
    clear(&codes);
    clear(&open_calls);
}

/* What the system counts for a thread is closed with it. */
static pthread_key_t thread_end;

static void end_counting(void *reader) { end_work(reader); }

static __attribute__((constructor)) void make_key(void) { pthread_key_create(&thread_end, end_counting); }

static void own(PyObject **place, PyObject *object)
{
    PyObject *before = *place;
    *place = object;
    if (object != NULL)
        Py_IncRef(object);
    if (before != NULL)
        Py_DecRef(before);
}

EXPORTED void begin_thread(PyObject *events, PyObject *work)
{
    self.recording = recording;
    self.look = look_number - 1;
    self.depth = 0;
    self.event_ns = self.counted_ns = 0;
    /* A forked process has its parent's, whose threads they count. */
    end_work(&self.reader);
    pthread_setspecific(thread_end, &self.reader);
    /* An ended thread leaves empty lists behind, as what it does last may come after its values are gone. */
    own(&self.events, events);
    own(&self.work, work);
}

/* Return the name of a counter of a thread's work; NULL behind the last one. */
EXPORTED const char *work_name(uint32_t place) { return place < WORK_COUNTS ? work_names[place] : NULL; }

/* Count it from now on, with the number that it has in the trace. */
EXPORTED void number_work(uint32_t place, int64_t number) { work_numbers[place] = number; }

EXPORTED int is_thread_begun(void) { return self.recording == recording; }

static int has_room_for(size_t at)
{
    if (at < function_capacity)
        return 1;
    size_t capacity = 2 * at + 64;
    struct function *larger = realloc(functions, capacity * sizeof *functions);
    if (larger == NULL)
        return 0;
    memset(larger + function_capacity, 0, (capacity - function_capacity) * sizeof *larger);
    functions = larger;
    function_capacity = capacity;
    return 1;
}

static void take_row(struct function *function)
{
    function->row = row_count < MOST_FUNCTIONS ? row_count++ : 0;
    struct row *row = &rows[function->row];
    if (function->row > 0)
        row->credit = FIRST_CREDIT;
    row->counted_from_ns = row->observed_ns = now_ns();
}

/* Note a function by its code object. Its events have the codes that are given as objects, too; those of SKIPPED
 * are not recorded. Return the row in which it is counted, or SKIPPED. */
EXPORTED int32_t add_function(const void *code, int64_t number, PyObject *entry, PyObject *exit)
{
    if (number < 0 || !has_room_for((size_t)number >> 1)) {
        put(&codes, code, SKIPPED);
        return SKIPPED;
    }
    struct function *function = &functions[number >> 1];
    if (!function->is_known) {
        /* Never given back: few bytes, and rows may have them. */
        Py_IncRef(entry);
        Py_IncRef(exit);
        *function = (struct function){entry, exit, 0, 1};
        take_row(function);
    }
    put(&codes, code, number >> 1);
    return (int32_t)function->row;
}

EXPORTED void forget_function(const void *code) { erase(&codes, code); }

static void add_to(PyObject *list, int64_t value)
{
    PyObject *number = PyLong_FromLongLong(value);
    if (number == NULL || PyList_Append(list, number) != 0)
        PyErr_Clear();
    if (number != NULL)
        Py_DecRef(number);
}

/* Whether the thread has had no event since the last one here: coroutines and regions record their own, and so does
 * the recorder of MPI. A list whose rows were taken says nothing. */
static int was_alone(void)
{
    ptrdiff_t size = PyList_Size(self.events);
    if (size > 0 && PyLong_AsLongLong(PyList_GetItem(self.events, size - 1)) != self.event_ns)
        return 0;
    return last_of_recorder_ns == NULL || last_of_recorder_ns() < self.event_ns;
}

/* Read what the thread did, once a millisecond at most, and record it where it has had no event for so long: what lies
 * between is of one call's own code. */
static __attribute__((cold, noinline)) void count_work(int64_t now)
{
    struct work last = self.counted;
    read_work(&self.reader, &self.counted);
    int is_known = self.counted_ns != 0 && self.depth > 0 && now - self.event_ns >= READ_NS && was_alone();
    self.counted_ns = now;
    for (unsigned place = 0; is_known && place < WORK_COUNTS; place++) {
        uint64_t amount = work_between(&last, &self.counted, place);
        if (amount == 0 || work_numbers[place] <= 0)
            continue;
        add_to(self.work, work_numbers[place]);
        add_to(self.work, (int64_t)amount);
        /* Clearly before the event that comes now, whose time may be rounded to a microsecond. */
        add_to(self.work, now - WITHIN_NS);
    }
}

static void append(PyObject *number, int64_t time_ns)
{
    if (UNLIKELY(time_ns - self.counted_ns >= READ_NS))
        count_work(time_ns);
    self.event_ns = time_ns;
    if (PyList_Append(self.events, number) != 0)
        PyErr_Clear();
    else
        add_to(self.events, time_ns);
}

static void fill_pool(uint32_t threads, int looks)
{
    pool = (int64_t)calls_of(&budget, threads) * looks;
    filled_ns = now_ns();
}

/* Whether a call may be recorded whose function has used up what was planned for it. */
static int renew_credit(struct row *row)
{
    /* A process that has just begun may not be looked at yet. */
    if (now_ns() - filled_ns >= BURST_LOOKS * LOOK_NS)
        fill_pool(1, BURST_LOOKS);
    /* None takes more in all than is left for others. */
    if (row->is_sampled || pool < CREDIT + (int64_t)row->taken) {
        row->is_out = 1;
        return 0;
    }
    pool -= CREDIT;
    row->taken += CREDIT;
    row->credit = CREDIT;
    return 1;
}

static enum Told leave_out(struct row *row, const void *frame)
{
    row->left_out++;
    /* One that lay there has ended while no hook saw it. */
    erase(&open_calls, frame);
    if (!is_monitored || !(row->is_decided_out || row->is_sampled))
        return PASSED;
    /* From now on calls of it are not even counted, until the budget wants them again. */
    row->counted_until_ns = now_ns();
    row->uncounted_ns = row->uncounted_ns == 0 ? row->counted_until_ns : row->uncounted_ns;
    return NEEDLESS;
}

static void note_thread(void)
{
    if (self.look != look_number) {
        self.look = look_number;
        thread_count++;
    }
}

static enum Told begin(const struct slot *known, const void *frame)
{
    const struct function *function = &functions[known->value];
    struct row *row = &rows[function->row];
    note_thread();
    if (row->credit == 0 && (row->is_out || !renew_credit(row)))
        return leave_out(row, frame);
    int64_t now = now_ns();
    if (!put(&open_calls, frame, now))
        return leave_out(row, frame);
    row->credit--;
    row->begun++;
    append(function->entry, now);
    self.depth++;
    return RECORDED;
}

static enum Told end(const struct slot *known, const void *frame)
{
    const struct function *function = &functions[known->value];
    struct row *row = &rows[function->row];
    struct slot *begun = find(&open_calls, frame);
    if (begun == NULL)
        /* The end of one that is recorded may come to this place, too. */
        return row->counted_until_ns == 0 || row->begun > row->ended ? PASSED : NEEDLESS;
    int64_t now = now_ns();
    double runtime_us = 1e-3 * (double)(now - begun->value);
    row->ended++;
    row->squares_us2 += runtime_us * runtime_us;
    erase(&open_calls, frame);
    append(function->exit, now);
    self.depth -= self.depth > 0;
    return RECORDED;
}

/* See to an event of a frame that begins or goes on, or that pauses or ends. */
static enum Told step(const void *code, const void *frame, int is_begin)
{
    const struct slot *known = find(&codes, code);
    if (UNLIKELY(known == NULL))
        return NEW;
    if (known->value == SKIPPED)
        return NEEDLESS;
    if (UNLIKELY(self.recording != recording))
        return NEW;
    if (UNLIKELY(self.events == NULL))
        return PASSED;
    return is_begin ? begin(known, frame) : end(known, frame);
}

static const void *code_of(PyObject *frame)
{
    PyObject *code = PyFrame_GetCode(frame);
    /* The frame has it, too. */
    Py_DecRef(code);
    return code;
}

EXPORTED int step_frame(PyObject *frame, int is_begin) { return step(code_of(frame), frame, is_begin); }

/* Whether a call that is open counts as recorded, and so will have an EXIT: it was found after a time without a hook. */
EXPORTED int adopt_frame(PyObject *frame)
{
    const struct slot *known = find(&codes, code_of(frame));
    if (known == NULL || known->value == SKIPPED)
        return 0;
    if (find(&open_calls, frame) != NULL)
        return 1;
    return !rows[functions[known->value].row].is_out && put(&open_calls, frame, now_ns());
}

/* What was seen of a row since the last look. */
static struct observation news(struct row *row, int64_t now)
{
    uint64_t calls = row->begun + row->left_out;
    int64_t from = row->counted_from_ns > looked_ns ? row->counted_from_ns : looked_ns;
    int64_t until = row->counted_until_ns == 0 ? now : row->counted_until_ns;
    int64_t counted_ns = until > from ? until - from : 0;
    struct observation seen = {
        .calls = calls - row->calls_before,
        .counted_ns = counted_ns,
        .since_ns = now - row->observed_ns,
        .recorded = row->ended - row->ended_before,
        .squares_us2 = row->squares_us2 - row->squares_before_us2,
    };
    if (counted_ns > 0)
        row->observed_ns = now;
    row->calls_before = calls;
    row->ended_before = row->ended;
    row->squares_before_us2 = row->squares_us2;
    return seen;
}

static void tell(struct row *row, const struct estimate *function, int64_t now, int may_restart)
{
    row->credit = function->credit;
    row->taken = 0;
    row->is_sampled = function->decision == SAMPLED;
    row->is_out = row->is_decided_out = function->decision == LEFT_OUT;
    if (row->is_out || row->counted_until_ns == 0 || !may_restart)
        return;
    /* Python has to be asked to tell of it again. */
    restarted_ns = now;
    row->counted_from_ns = now;
    row->counted_until_ns = 0;
    row->samples += row->is_sampled;
    is_restart_wanted = 1;
}

/* Decide what is recorded until the next look. */
EXPORTED void look(void)
{
    int64_t now = now_ns();
    for (uint32_t row = 0; row < row_count; row++)
        observations[row] = news(&rows[row], now);
    looked_ns = now;
    uint32_t threads = thread_count > 0 ? thread_count : 1;
    decide(&budget, estimates, observations, row_count, threads);
    uint32_t untold = 0;
    for (uint32_t row = 0; row < row_count; row++)
        untold += rows[row].counted_until_ns != 0;
    int may_restart = now - restarted_ns >= RESTART_NS * untold;
    for (uint32_t row = 0; row < row_count; row++)
        tell(&rows[row], &estimates[row], now, may_restart);
    fill_pool(threads, 1);
    thread_count = 0;
    look_number++;
}

/* Return whether Python has to tell again of what it was not to tell. */
EXPORTED int take_restart(void)
{
    int is_wanted = is_restart_wanted;
    is_restart_wanted = 0;
    return is_wanted;
}

/* Tell of each row: calls that were left out, ns from the recording's begin until calls were first not counted, or 0,
 * and samples since. */
EXPORTED void describe_rows(uint32_t count, int64_t (*said)[3])
{
    for (uint32_t row = 0; row < row_count && row < count; row++) {
        said[row][0] = (int64_t)rows[row].left_out;
        said[row][1] = rows[row].uncounted_ns == 0 ? 0 : rows[row].uncounted_ns - started_ns;
        said[row][2] = (int64_t)rows[row].samples;
    }
}

static int profile(PyObject *object, PyObject *frame, int what, PyObject *argument)
{
    if (what != CALL && what != RETURN)
        return 0;
    if (step_frame(frame, what == CALL) != NEW)
        return 0;
    PyObject *name = what == CALL ? call_name : return_name;
    PyObject *answer =
        PyObject_CallFunctionObjArgs(object, frame, name, argument == NULL ? none : argument, (PyObject *)NULL);
    if (answer == NULL) {
        /* As Python's own hook does. */
        PyEval_SetProfile(NULL, NULL);
        return -1;
    }
    Py_DecRef(answer);
    return 0;
}

/* Make an object the hook of the calling thread, which is called for what is not known here. */
static PyObject *none;
static Call *call_as_ever;

/* A call of a Python function whose errors nobody shall hear of. */
static PyObject *call_quietly(PyObject *function, PyObject *const *arguments, size_t count, PyObject *names)
{
    PyObject *result = call_as_ever(function, arguments, count, names);
    if (result == NULL) {
        PyErr_Clear();
        Py_IncRef(none);
        result = none;
    }
    return result;
}

/* Has the errors of a Python function forgotten, where what is in C calls it: at the limit of recursion none can be
 * called, and no callable that Python itself makes, and Python would write about that for each collection of garbage.
 * Each function holds how it is called, one word of it. */
EXPORTED int silence(PyObject *function, size_t words, PyObject *nothing)
{
    Call **word = (Call **)function, *found = PyVectorcall_Function(function);
    if (found == NULL || found == call_quietly)
        return found != NULL;
    none = nothing;
    call_as_ever = found;
    for (size_t at = 0; at < words; at++)
        if (word[at] == found) {
            word[at] = call_quietly;
            return 1;
        }
    return 0;
}

EXPORTED void set_hook(PyObject *object) { PyEval_SetProfile(profile, object); }

static PyObject *told(PyObject *asked, PyObject *const *arguments, size_t count, int is_begin, int may_disable)
{
    PyObject *frame = PyEval_GetFrame();
    enum Told answer = frame == NULL || code_of(frame) != arguments[0] ? NEW : step(arguments[0], frame, is_begin);
    if (answer == NEW)
        return PyObject_Vectorcall(asked, arguments, count, NULL);
    PyObject *said = answer == NEEDLESS && may_disable ? disable : none;
    Py_IncRef(said);
    return said;
}

static PyObject *begun(PyObject *asked, PyObject *const *arguments, size_t count)
{
    return told(asked, arguments, count, 1, 1);
}

static PyObject *thrown(PyObject *asked, PyObject *const *arguments, size_t count)
{
    return told(asked, arguments, count, 1, 0);
}

static PyObject *ended(PyObject *asked, PyObject *const *arguments, size_t count)
{
    return told(asked, arguments, count, 0, 1);
}

static PyObject *unwound(PyObject *asked, PyObject *const *arguments, size_t count)
{
    return told(asked, arguments, count, 0, 0);
}

/* Return a callback for sys.monitoring, which asks an object about what is not known here. */
EXPORTED PyObject *new_callback(int is_begin, int may_disable, PyObject *asked)
{
    static struct method methods[2][2] = {
        {{"unwound", unwound, FASTCALL, NULL}, {"ended", ended, FASTCALL, NULL}},
        {{"thrown", thrown, FASTCALL, NULL}, {"begun", begun, FASTCALL, NULL}},
    };
    return PyCFunction_NewEx(&methods[is_begin != 0][may_disable != 0], asked, NULL);
}
