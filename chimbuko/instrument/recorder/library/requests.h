/* Messages and operations that have begun, until they are completed. */
#ifndef CHIMBUKO_REQUESTS_H
#define CHIMBUKO_REQUESTS_H

#include "messages.h"

struct request {
    uint64_t handle; /* 0 for none */
    int64_t bytes;
    int32_t peer;
    int32_t tag;
    uint32_t number;
    int32_t thread; /* that made it */
    uint16_t communicator;
    uint8_t is_receive, is_kept, is_collective; /* kept: persistent */
};

/* Of a message that was looked at, its handle differs from that of a request by this. */
#define MESSAGE UINT64_C(0x4d00000000000000)

HIDDEN void keep_request(struct request request);

/* What is known of a request; it is forgotten unless it is persistent, or `is_only_looked_at`. */
HIDDEN bool take_request(uint64_t handle, bool is_only_looked_at, struct request *request);

/* The number by which the next one is known. */
HIDDEN uint32_t next_number(void);

/* In a forked child: nobody is at work on the table, whoever was. */
HIDDEN void free_requests(void);

#endif
