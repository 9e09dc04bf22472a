/* Decisions that all ranks of a program take together on a node, so that they record the same functions. */
#ifndef CHIMBUKO_NODE_H
#define CHIMBUKO_NODE_H

#include "budget.h"
#include "layout.h"

/* Whether some functions are left out by others: then this process has to look, too. */
__attribute__((visibility("hidden"))) bool is_called_to_look(void);

/* Give what this process has observed to the others, and replace its decisions by the common ones where there are any.
 * `keys` are those of the rows. */
__attribute__((visibility("hidden"))) void decide_together(const struct budget *budget, const Key *keys,
                                                           struct estimate *functions, const struct observation *seen,
                                                           uint32_t count, uint32_t threads);

/* In a forked child: what its parent leads it does not. */
__attribute__((visibility("hidden"))) void forget_node(void);

#endif
