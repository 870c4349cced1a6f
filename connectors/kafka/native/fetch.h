/* Records of a librdkafka consumer, a batch at a time, as columns that Arrow takes as they are.
 *
 * The consumer stays confluent_kafka's: membership, callbacks, positions, pauses. This library is
 * a plugin of librdkafka (`plugin.library.paths`), so it is given the consumer's handle by public
 * means. Partitions' queues are forwarded to a queue of ours; from it
 *
 *     take     gets messages, waiting at most so long;
 *     next     measures the next result of them: the records up to an error event, or as many as
 *              columns hold; it says how large a buffer they need, and where each column lies;
 *     fill     copies them, those of a partition side by side, with whose they are and what the
 *              event says, and destroys the messages. No pointer to anything of librdkafka's
 *              leaves this library;
 *     error    says what librdkafka had to tell while messages were taken that is no message: a
 *              partition's queue brings that a topic is gone.
 *
 * native_library.py and native_fetch.py are the only callers; ctypes releases the interpreter's
 * lock in each call. One thread at a time uses a consumer; a lock makes the end of the client,
 * which librdkafka tells on a thread of its own, wait for a call under way.
 *
 *     client.c        the client's handle, partitions' queues, messages taken
 *     columns.c       from messages to columns
 *     no_headers.c    that a message has no headers, without asking librdkafka
 *     librdkafka.h    what of librdkafka is used
 */
#ifndef SHARDLOG_FETCH_H
#define SHARDLOG_FETCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "librdkafka.h"

/* Changes whenever what Python knows of this library does. */
#define ABI 5
#define EXPORT __attribute__((visibility("default")))

/* --- what Python reads; every field is an int64 ---------------------------------------------- */

enum column {
    OFFSETS,
    TIMESTAMPS,
    KINDS,
    MISNAMED,
    KEYS_VALID, /* a column of bytes is three, in this order */
    KEYS_ENDS,
    KEYS,
    VALUES_VALID,
    VALUES_ENDS,
    VALUES,
    HEADERS_VALID,
    HEADERS_ENDS,
    NAMES_VALID, /* never there: none is null */
    NAMES_ENDS,
    NAMES,
    CONTENTS_VALID, /* a header's content: its value */
    CONTENTS_ENDS,
    CONTENTS,
    RUNS,   /* as `told_run` */
    TOPICS, /* of the runs, side by side */
    FAULT_TOPIC,
    FAULT_TEXT,
    COLUMNS
};

struct fetch_result {
    int64_t records;
    int64_t runs;
    int64_t has_fault; /* an error event stands behind it */
    int64_t left;      /* messages behind it and its fault */
    int64_t bytes;     /* of the buffer that `fill` takes */
    int64_t null_keys;
    int64_t null_values;
    int64_t with_headers; /* records that have any that can be read */
    int64_t headers;
    int64_t null_contents;
    int64_t misnamed; /* records of which a header's name is no UTF-8 */
    int64_t fault_code;
    int64_t fault_partition;
    int64_t fault_offset;
    int64_t at[COLUMNS];
    int64_t size[COLUMNS]; /* 0: the column is not there */
};

/* Where the records of one partition lie, [start, end). */
struct told_run {
    int64_t topic_end; /* in TOPICS; it begins where that of the run before it ends */
    int64_t partition;
    int64_t start;
    int64_t end;
    int64_t epoch; /* of the last; negative: none */
};

/* What is longer is cut. */
#define ERROR_TEXT_MAX 512

/* --- what librdkafka's client owns, and its user ------------------------------------------- */

/* A partition's messages of the result. */
struct run {
    const rd_kafka_message_t *first, *last;
    int64_t start, count;
};

/* Of a message of the result. */
struct note {
    uint32_t run;
    enum { IS_MISNAMED = 1, HAS_HEADERS } of_headers; /* or 0 */
};

struct fetch {
    pthread_mutex_t lock;
    atomic_int owners; /* librdkafka's client, and Python */
    rd_kafka_t *client; /* null once it ends */
    rd_kafka_queue_t *queue;
    rd_kafka_queue_t **sources; /* of the partitions that are held; null: free */
    int64_t sources_room;

    rd_kafka_message_t **messages; /* [at, end) are ours */
    struct note *notes;
    uint32_t *order; /* the message that lies at each place of the columns */
    struct run *runs;
    uint32_t *table; /* runs by topic and number, plus one; 0: free */
    size_t room;
    size_t table_mask;
    size_t at, end;
    int error_code; /* the last since Python asked; 0: none */
    char error_text[ERROR_TEXT_MAX];
    struct fetch_result result; /* what `next` measured and `fill` has yet to copy */
};

/* Made and destroyed, both of queues and of messages; a test compares them. */
enum counter { QUEUES_MADE, QUEUES_GONE, MESSAGES_MADE, MESSAGES_GONE, COUNTERS };

void shardlog_count(enum counter counter, int64_t number);

/* Destroy messages up to this one. */
void shardlog_end_messages(struct fetch *f, size_t end);

/* Tell whether a message, which is no fault, provably has no headers. */
bool shardlog_proves_no_headers(const rd_kafka_message_t *m);

#endif
