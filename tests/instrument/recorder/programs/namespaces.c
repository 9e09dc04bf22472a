/* Publishes what a test expects; with "lines" it writes a million updates, with "fork" its child publishes, too. */
#include "chimbuko_namespaces.h"
#include <math.h>
#include <sys/wait.h>

static chimbuko_namespace application = CHIMBUKO_NAMESPACE("application");

int main(int count, char **words)
{
    const double profile[] = {0.1, -1.5, 1e300};
    int step;
    if (count > 1 && strcmp(words[1], "fork") == 0) {
        chimbuko_update(&application, "parent", 1);
        if (fork() == 0) {
            static chimbuko_namespace own = CHIMBUKO_NAMESPACE("application");
            chimbuko_update(&application, "inherited", 1);
            chimbuko_publish(&application);
            chimbuko_update(&own, "child", 2);
            chimbuko_publish(&own);
            return 0;
        }
        wait(NULL);
        chimbuko_publish(&application);
        return 0;
    }
    chimbuko_set_publish_frequency(&application, 50);
    for (step = 0; step < 500; step++) {
        chimbuko_update_integer(&application, "step", step);
        chimbuko_append(&application, "residuals", step / 3.0);
        chimbuko_commit(&application);
    }
    chimbuko_update_text(&application, "note", "two\tfields\nand a \\");
    chimbuko_update(&application, "Rank 3/mass", 0.1);
    chimbuko_update(&application, "nan", NAN);
    chimbuko_update(&application, "infinite", -INFINITY);
    chimbuko_update_boolean(&application, "is_stable", 1);
    chimbuko_update_array(&application, "profile", profile, 3);
    chimbuko_update_text(&application, "step", "of another type");
    chimbuko_update(&application, NULL, 1);
    chimbuko_publish(&application);
    chimbuko_update(&application, "never committed", 1);
    return 7;
}
