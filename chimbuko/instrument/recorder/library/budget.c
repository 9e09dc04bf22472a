/* A call is worth the square of its runtime, in the mean of its function: what can cost time is long, or varies by
 * much. So the budget goes to functions that are worth most, call for call. A function that is called so seldom that
 * all such ones together take a quarter of it is kept in any case; an eighth is for samples of those left out. */
#include "budget.h"

#include <stdlib.h>

enum {
    FEW_CALLS = 16,
    LOOKS_OUT = 8,    /* at least, before a sample */
    MOST_WEIGHT = 256 /* calls that are remembered */
};
#define SMOOTHING_NS 5e8
#define SELDOM_SHARE 0.25
#define SAMPLED_SHARE 0.125
/* What is kept stays in favour of what is as good: else two would take turns. Of squares, so 1.5 of runtimes. */
#define FAVOUR 2.25
/* What comes back needs room for more calls than it has: else a function at the limit would come and go, and with it
 * what its callers take without it. */
#define RETURN_ROOM 1.25
#define CHANGE 16.0 /* of squares, so 4 times the runtimes */
#define REPAID_PART 0.05 /* in a look: so what it takes to begin, 20 ms, is saved within some seconds */
#define LEAST_PART 0.25  /* of the budget, for calls, whatever else it takes to record them */

double calls_of(const struct budget *budget, uint32_t threads)
{
    return budget->overhead * (double)LOOK_NS * (threads > 0 ? threads : 1) / CALL_PRICE_NS;
}

double left_for_calls(struct beside *beside, double overhead, int64_t spent_ns, uint64_t recorded, int64_t passed_ns)
{
    /* A forked child begins at 0. */
    double news_ns = spent_ns > beside->spent_ns ? (double)(spent_ns - beside->spent_ns) : 0;
    beside->spent_ns = spent_ns;
    beside->unexpected_ns += news_ns - PRICE_BESIDE_NS * (double)recorded;
    double repaid_ns = REPAID_PART * beside->unexpected_ns;
    beside->unexpected_ns -= repaid_ns;
    double left = overhead - (repaid_ns > 0 ? repaid_ns / (double)passed_ns : 0);
    return left > LEAST_PART * overhead ? left : LEAST_PART * overhead;
}

static bool is_out(const struct estimate *function)
{
    return function->decision == LEFT_OUT || function->decision == SAMPLED;
}

static double planned_calls(const struct estimate *function) { return function->calls_per_s * 1e-9 * LOOK_NS; }

/* Whether runtimes are such that a function has become another one: then its calls are, too. */
static bool has_changed(const struct estimate *function, const struct observation *seen)
{
    return seen->squares_us2 > CHANGE * function->square_us2 * (double)seen->recorded;
}

static void learn(struct estimate *function, const struct observation *seen)
{
    if (seen->recorded > 0 && has_changed(function, seen))
        function->decision = UNKNOWN_YET;
    bool is_new = function->decision == UNKNOWN_YET;
    if (seen->counted_ns > 0) {
        double since_ns = (double)seen->since_ns, share = is_new ? 1 : since_ns / (since_ns + SMOOTHING_NS);
        /* A call in the first ms does not mean a thousand in a second. */
        bool is_chance = seen->calls < FEW_CALLS && seen->counted_ns < LOOK_NS;
        double counted_s = 1e-9 * (double)(is_chance ? LOOK_NS : seen->counted_ns);
        function->calls_per_s += share * ((double)seen->calls / counted_s - function->calls_per_s);
    }
    if (seen->recorded == 0)
        return;
    /* As many as in a sample replace what was known. */
    double now = (double)seen->recorded, room = now < MOST_WEIGHT ? MOST_WEIGHT - now : 0;
    double before = is_new || now >= SAMPLE_CALLS / 2 ? 0 : function->weight < room ? function->weight : room;
    function->weight = before + now;
    function->square_us2 = (before * function->square_us2 + seen->squares_us2) / function->weight;
}

static double worth_us2(const struct estimate *function)
{
    if (function->is_poll)
        return 0;
    return function->decision == KEPT ? FAVOUR * function->square_us2 : function->square_us2;
}

static const struct estimate *compared; /* by one thread at a time */

static int compare_worth(const void *one, const void *other)
{
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    double worth_a = worth_us2(&compared[a]), worth_b = worth_us2(&compared[b]);
    return worth_a != worth_b ? (worth_a < worth_b) - (worth_a > worth_b) : (a > b) - (a < b);
}

static void keep(struct estimate *function, double calls)
{
    function->decision = KEPT;
    function->looks_out = 0;
    function->credit = 1 + (uint32_t)calls;
}

static void choose_samples(struct budget *budget, struct estimate *functions, uint32_t count, double calls)
{
    uint32_t first = budget->next;
    for (uint32_t number = 0; number < count && calls >= SAMPLE_CALLS; number++) {
        uint32_t row = (first + number) % count;
        struct estimate *function = &functions[row];
        if (function->decision != LEFT_OUT || function->looks_out < LOOKS_OUT || function->is_poll)
            continue;
        function->decision = SAMPLED;
        function->credit = SAMPLE_CALLS;
        calls -= SAMPLE_CALLS;
        budget->next = row + 1;
    }
}

/* Whether a function is called so seldom that it is kept, however short it is. */
static bool is_seldom(const struct estimate *function, double most)
{
    /* What is left out comes back when it is clearly so. */
    return planned_calls(function) <= (is_out(function) ? most / 2 : most);
}

void decide(struct budget *budget, struct estimate *functions, const struct observation *seen, uint32_t count,
            uint32_t threads)
{
    static uint32_t frequent[MOST_FUNCTIONS];
    uint32_t frequent_count = 0;
    double calls = calls_of(budget, threads), seldom = SELDOM_SHARE * calls / count, spent = 0;
    for (uint32_t row = 0; row < count; row++) {
        learn(&functions[row], &seen[row]);
        if (is_seldom(&functions[row], seldom)) {
            /* It may be called more often than before, as long as that is seldom. */
            keep(&functions[row], seldom);
            spent += planned_calls(&functions[row]);
        } else {
            frequent[frequent_count++] = row;
        }
    }
    compared = functions;
    qsort(frequent, frequent_count, sizeof *frequent, compare_worth);
    for (uint32_t number = 0; number < frequent_count; number++) {
        struct estimate *function = &functions[frequent[number]];
        double room = is_out(function) ? RETURN_ROOM : 1;
        if (spent + room * planned_calls(function) <= (1 - SAMPLED_SHARE) * calls) {
            keep(function, planned_calls(function));
            spent += planned_calls(function);
        } else {
            function->looks_out = function->decision == SAMPLED ? 0 : function->looks_out + 1;
            function->decision = LEFT_OUT;
            function->credit = 0;
        }
    }
    choose_samples(budget, functions, count, SAMPLED_SHARE * calls);
}
