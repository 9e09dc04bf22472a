/* Annotated functions of all kinds; with C, those of C. */
#define AROUND __attribute__((annotate("@critical_path(pointcut='around')")))
#define NOTED(what) __attribute__((annotate("@critical_path(" what ")")))
#include <stdio.h>

AROUND static inline int small(int n) { return n + 1; }
NOTED("pointcut='before', flow='out'") void hand_on(void);
void hand_on(void) {}
NOTED("pointcut='after', flow='in'") void take(void) { }
static __attribute__((noinline, annotate("@critical_path(pointcut='around_async'" ", scope='net')"))) void
request(void) {}
NOTED("pointcut='arund'") void mistaken(void) {}
void plain(void) {}
AROUND int deep(int n) { return n > 0 ? deep(n - 1) : small(n); }

#ifdef __cplusplus
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

AROUND int over(int n) { return n; }
AROUND double over(double n) { return n; }
AROUND constexpr int constant() { return 7; }
AROUND void fails(std::map<std::string, std::vector<int>> what = {{"", {1}}})
{
    if (!what.empty())
        throw std::runtime_error("as it shall");
}
namespace grid
{
template <typename T> AROUND T largest(T one, T other) { return one < other ? other : one; }
struct Box
{
    AROUND Box() : size{3}, name("{") {}
    AROUND ~Box() {}
    AROUND Box &operator+=(int n) { size += n; return *this; }
    AROUND static auto make() -> Box { return Box(); }
    template <typename T> AROUND T as() const { return T(size); }
    void later() const noexcept;
    int size;
    std::string name;
};
AROUND void Box::later() const noexcept {}
} // namespace grid

static void cplusplus()
{
    over(1), over(2.0), static_cast<void>(constant());
    try {
        fails();
    } catch (const std::exception &) {
    }
    grid::largest(1, 2), grid::largest('a', 'b'), grid::largest('c', 'd');
    grid::Box box = grid::Box::make();
    (box += 1).later();
    static_cast<void>(box.as<int>());
    struct Local
    {
        AROUND void work() {}
    };
    Local().work();
    std::thread(deep, 2).join();
}
#endif

int main(void)
{
    for (int n = 0; n < 3; n++)
        hand_on(), take(), request();
    mistaken(), plain();
    printf("%d\n", deep(3));
#ifdef __cplusplus
    cplusplus();
#endif
    return 0;
}
