// Prints the address of each function of its own as it is first called, as TAU would see it; then waits.
#include <cstdio>
#include <dlfcn.h>
#include <set>

#define UNTRACED __attribute__((no_instrument_function))

extern "C" UNTRACED void __cyg_profile_func_enter(void *function, void *)
{
    static void *seen[64];
    for (auto &known : seen) {
        if (known == function)
            return;
        if (!known) {
            known = function;
            Dl_info found;
            dladdr(function, &found);
            printf("%p %s\n", function, found.dli_fname);
            return;
        }
    }
}

extern "C" UNTRACED void __cyg_profile_func_exit(void *, void *) {}

namespace heat {

static int local(int value)
{
    return value + 1;
}

struct Field {
    int sum(int first, double second);
};

int
Field::sum(int first,
           double second)
{
    return local(first) + (int)second;
}

}

int main(int count, char **arguments)
{
    heat::Field field;
    int result = field.sum(1, 2.0);
    for (int at = 1; at < count; at++) {
        void *library = dlopen(arguments[at], RTLD_NOW);
        result += reinterpret_cast<int (*)(int)>(dlsym(library, "plugin"))(at);
    }
    printf("end\n");
    fflush(stdout);
    getchar();
    return result == 0;
}
