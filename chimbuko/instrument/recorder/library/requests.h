/* Table of messages and operations that have begun, until they are completed. */
#ifndef CHIMBUKO_REQUESTS_H
#define CHIMBUKO_REQUESTS_H

#include "messages.h"

struct request {
    uint64_t handle; /* 0 for none */
    int64_t bytes;
    int32_t peer;
    int32_t tag;
    uint32_t number;
    int32_t thread; /* thread that made it */
    uint16_t communicator;
    uint8_t is_receive, is_kept, is_collective; /* kept: persistent */
};

/* Mark of the handle of a matched message (MPI_Mprobe), in place of that of a request. */
#define MESSAGE UINT64_C(0x4d00000000000000)

HIDDEN void keep_request(struct request request);

/* Find a request; it is removed unless it is persistent, or `is_only_looked_at`. */
HIDDEN bool take_request(uint64_t handle, bool is_only_looked_at, struct request *request);

/* Number of the next request. */
HIDDEN uint32_t next_number(void);

/* Release all locks in a forked child, where no other thread uses the table. */
HIDDEN void free_requests(void);

#endif
