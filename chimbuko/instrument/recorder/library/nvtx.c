/* Ranges that a program names by NVIDIA's NVTX: they are regions. NVTX stands in headers, which load the library that
 * NVTX_INJECTION64_PATH names and have it replace their functions. Ranges that begin on one thread and may end on
 * another are not recorded, nor marks. */
#include "recorder.h"

#include <stdio.h>
#include <string.h>

enum { CALLBACKS = 1, CORE = 1, CORE2 = 5 };
enum { PUSH_WITH_ATTRIBUTES = 8, PUSH = 9, POP = 11 };
enum { DOMAIN_PUSH = 4, DOMAIN_POP = 5, REGISTER = 10 };
enum { TEXT = 1, REGISTERED = 3 };
enum { KNOWN = 1 << 12, OPEN = 64 };

typedef void (*function)(void);
struct export_table {
    size_t bytes;
    int (*find_functions)(int module, function ***functions, unsigned *count);
};
typedef const void *find_table(uint32_t number);

struct attributes {
    uint16_t version, bytes;
    uint32_t category;
    int32_t colour_type;
    uint32_t colour;
    int32_t payload_type, unused;
    uint64_t payload;
    int32_t text_type;
    const void *text;
};

static struct known {
    _Atomic uint64_t hash;
    _Atomic unsigned name;
} known[KNOWN];

/* Names of the ranges that are open; a thread may have more, of which those are not recorded. */
static __thread unsigned open_names[OPEN] __attribute__((tls_model("initial-exec")));
static __thread int depth __attribute__((tls_model("initial-exec")));

/* The number of a range's name. A number at its end, as of a step, makes no other range of it. */
static unsigned number_of(const char *text)
{
    size_t length = text == NULL ? 0 : strlen(text);
    while (length > 1 && text[length - 1] >= '0' && text[length - 1] <= '9')
        length--;
    while (length > 1 && strchr(" #:_-", text[length - 1]) != NULL)
        length--;
    uint64_t hash = UINT64_C(1469598103934665603);
    for (size_t at = 0; at < length; at++)
        hash = (hash ^ (uint8_t)text[at]) * UINT64_C(1099511628211);
    struct known *one = &known[hash % KNOWN];
    if (atomic_load_explicit(&one->hash, memory_order_acquire) == hash)
        return atomic_load_explicit(&one->name, memory_order_relaxed);
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)(length < NAME_BYTES ? length : NAME_BYTES - 1), text);
    Key key = length == 0 ? 0 : key_of_name(name);
    unsigned number = key == 0 ? 0 : (unsigned)(key & ~NAMED) + 1;
    unsigned long none = 0;
    /* Where two names have one place the first one keeps it. */
    if (number != 0 && atomic_compare_exchange_strong(&one->hash, &none, 1)) {
        atomic_store(&one->name, number);
        atomic_store_explicit(&one->hash, hash, memory_order_release);
    }
    return number;
}

static int push_number(unsigned number)
{
    if (depth < OPEN)
        open_names[depth] = number;
    if (number != 0 && depth < OPEN)
        enter_region(NAMED | (number - 1));
    return depth++;
}

static int push(const char *text) { return push_number(number_of(text)); }

static int push_with_attributes(const struct attributes *given)
{
    bool has_text = given != NULL && given->bytes >= sizeof *given;
    if (has_text && given->text_type == REGISTERED)
        return push_number((unsigned)(uintptr_t)given->text);
    return push(has_text && given->text_type == TEXT ? given->text : NULL);
}

static int push_in_domain(void *domain, const struct attributes *given)
{
    (void)domain;
    return push_with_attributes(given);
}

static int pop(void)
{
    if (depth == 0)
        return -1;
    depth--;
    if (depth < OPEN && open_names[depth] != 0)
        leave(NAMED | (open_names[depth] - 1));
    return depth;
}

static int pop_in_domain(void *domain)
{
    (void)domain;
    return pop();
}

static void *register_text(void *domain, const char *text)
{
    (void)domain;
    return (void *)(uintptr_t)number_of(text);
}

static void replace(const struct export_table *table, int module, const unsigned *numbers, const function *with)
{
    function **functions;
    unsigned count;
    if (!table->find_functions(module, &functions, &count))
        return;
    for (; *numbers != 0; numbers++, with++)
        if (*numbers < count && functions[*numbers] != NULL)
            *functions[*numbers] = *with;
}

/* The headers call this at the first use of NVTX. */
EXPORTED int InitializeInjectionNvtx2(find_table *find)
{
    static const unsigned of_core[] = {PUSH_WITH_ATTRIBUTES, PUSH, POP, 0};
    static const unsigned of_domains[] = {DOMAIN_PUSH, DOMAIN_POP, REGISTER, 0};
    const function core[] = {(function)push_with_attributes, (function)push, (function)pop};
    const function domains[] = {(function)push_in_domain, (function)pop_in_domain, (function)register_text};
    const struct export_table *table = find(CALLBACKS);
    if (table == NULL || is_only_counting || !acquire())
        return 0;
    release();
    replace(table, CORE, of_core, core);
    replace(table, CORE2, of_domains, domains);
    return 1;
}
