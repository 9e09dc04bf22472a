/* Regions and counters of a program in C or C++, as it names them.
 *
 *     void solve(void)
 *     {
 *         CHIMBUKO_REGION("solve");             until the end of the block
 *         CHIMBUKO_COUNT("unknowns", 1000);
 *     }
 *
 * Or with a beginning and an end of their own, which have to nest on each thread:
 *
 *     chimbuko_begin("assemble");
 *     chimbuko_end("assemble");
 *
 * They are recorded where the program runs under 'chimbuko trace'; else all of it does nothing, and nothing has to be
 * linked. A name is a text that stays, as literals do, of at most 255 bytes. A process may have some 1,000. */
#ifndef CHIMBUKO_H
#define CHIMBUKO_H

#ifdef __cplusplus
extern "C" {
#endif

/* Functions of the library that 'chimbuko trace' preloads. */
unsigned chimbuko_name(const char *name) __attribute__((weak, no_instrument_function));
void chimbuko_enter(unsigned name) __attribute__((weak, no_instrument_function));
void chimbuko_leave(unsigned name) __attribute__((weak, no_instrument_function));
void chimbuko_count(unsigned name, double value) __attribute__((weak, no_instrument_function));

#ifdef __cplusplus
}
#endif

#define CHIMBUKO_NAME_BYTES 256
#define CHIMBUKO_UNSEEN __attribute__((unused, no_instrument_function))

static __inline__ CHIMBUKO_UNSEEN unsigned chimbuko_number(unsigned *known, const char *name)
{
    /* 1 is added, so that 0 says that the number is not known yet; all threads get the same number. */
    unsigned number = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (number == 0) {
        number = (chimbuko_name ? chimbuko_name(name) : 0) + 1;
        __atomic_store_n(known, number, __ATOMIC_RELAXED);
    }
    return number - 1;
}

/* The same for a name in two parts; the second is that of the function, which only the compiler knows. */
static __inline__ CHIMBUKO_UNSEEN unsigned chimbuko_number_of(unsigned *known, const char *begin, const char *end)
{
    char name[CHIMBUKO_NAME_BYTES];
    unsigned number = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (number != 0)
        return number - 1;
    __builtin_snprintf(name, sizeof name, "%s%s", begin, end);
    return chimbuko_number(known, name);
}

static __inline__ CHIMBUKO_UNSEEN void chimbuko_enter_known(unsigned number)
{
    if (number != 0 && chimbuko_enter)
        chimbuko_enter(number);
}

static __inline__ CHIMBUKO_UNSEEN void chimbuko_leave_known(unsigned number)
{
    if (number != 0 && chimbuko_leave)
        chimbuko_leave(number);
}

#define CHIMBUKO_JOIN_(first, second) first##second
#define CHIMBUKO_JOIN(first, second) CHIMBUKO_JOIN_(first, second)

#define chimbuko_begin(name)                                                                                 \
    do {                                                                                                     \
        static unsigned chimbuko_known;                                                                      \
        chimbuko_enter_known(chimbuko_number(&chimbuko_known, name));                                        \
    } while (0)

#define chimbuko_end(name)                                                                                   \
    do {                                                                                                     \
        static unsigned chimbuko_known;                                                                      \
        chimbuko_leave_known(chimbuko_number(&chimbuko_known, name));                                        \
    } while (0)

#define CHIMBUKO_COUNT(name, value)                                                                          \
    do {                                                                                                     \
        static unsigned chimbuko_known;                                                                      \
        unsigned chimbuko_counter = chimbuko_number(&chimbuko_known, name);                                  \
        if (chimbuko_counter != 0 && chimbuko_count)                                                         \
            chimbuko_count(chimbuko_counter, (double)(value));                                               \
    } while (0)

#ifdef __cplusplus

namespace chimbuko
{
/* A region that lasts as long as this object does. */
class Region
{
  public:
    CHIMBUKO_UNSEEN explicit Region(unsigned number) : number_(number) { chimbuko_enter_known(number_); }
    CHIMBUKO_UNSEEN ~Region() { chimbuko_leave_known(number_); }
    Region(const Region &) = delete;
    Region &operator=(const Region &) = delete;

  private:
    unsigned number_;
};
} // namespace chimbuko

#define CHIMBUKO_REGION(name)                                                                                \
    static unsigned CHIMBUKO_JOIN(chimbuko_known_, __LINE__);                                                \
    chimbuko::Region CHIMBUKO_JOIN(chimbuko_region_, __LINE__)(                                              \
        chimbuko_number(&CHIMBUKO_JOIN(chimbuko_known_, __LINE__), name))

#else

static __inline__ CHIMBUKO_UNSEEN unsigned chimbuko_entered(unsigned number)
{
    chimbuko_enter_known(number);
    return number;
}

static __inline__ CHIMBUKO_UNSEEN void chimbuko_left(unsigned *number) { chimbuko_leave_known(*number); }

#define CHIMBUKO_REGION(name)                                                                                \
    static unsigned CHIMBUKO_JOIN(chimbuko_known_, __LINE__);                                                \
    unsigned CHIMBUKO_JOIN(chimbuko_region_, __LINE__)                                                       \
        __attribute__((cleanup(chimbuko_left), unused)) =                                                    \
            chimbuko_entered(chimbuko_number(&CHIMBUKO_JOIN(chimbuko_known_, __LINE__), name))

#endif

#endif
