/* librdkafka's public ABI, as far as it is used.
 *
 * No header of librdkafka is needed to build this library, nor is it linked with anything: in what
 * is declared here nothing has changed since 2.1.0, the first release with
 * rd_kafka_message_leader_epoch. The functions are looked up in the very library that
 * confluent_kafka uses (`shardlog_bind`).
 */
#ifndef SHARDLOG_LIBRDKAFKA_H
#define SHARDLOG_LIBRDKAFKA_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_headers_s rd_kafka_headers_t;
typedef int rd_kafka_error_code; /* an enum there */

typedef struct {
    rd_kafka_error_code err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *private;
} rd_kafka_message_t;

typedef rd_kafka_error_code on_new_f(
    rd_kafka_t *, const rd_kafka_conf_t *, void *opaque, char *text, size_t text_size);
typedef rd_kafka_error_code on_destroy_f(rd_kafka_t *, void *opaque);
typedef void error_f(rd_kafka_t *, int code, const char *text, void *opaque);

/* Name, result, parameters. */
#define FUNCTIONS(X)                                                                               \
    X(rd_kafka_conf_interceptor_add_on_new, int,                                                   \
      (rd_kafka_conf_t *, const char *, on_new_f *, void *))                                       \
    X(rd_kafka_interceptor_add_on_destroy, int,                                                    \
      (rd_kafka_t *, const char *, on_destroy_f *, void *))                                        \
    X(rd_kafka_conf_get, int, (const rd_kafka_conf_t *, const char *, char *, size_t *))           \
    X(rd_kafka_conf_set_error_cb, void, (rd_kafka_conf_t *, error_f *))                            \
    X(rd_kafka_opaque, void *, (const rd_kafka_t *))                                               \
    X(rd_kafka_queue_new, rd_kafka_queue_t *, (rd_kafka_t *))                                      \
    X(rd_kafka_queue_get_partition, rd_kafka_queue_t *, (rd_kafka_t *, const char *, int32_t))     \
    X(rd_kafka_queue_forward, void, (rd_kafka_queue_t *, rd_kafka_queue_t *))                      \
    X(rd_kafka_queue_destroy, void, (rd_kafka_queue_t *))                                          \
    X(rd_kafka_consume_batch_queue, ssize_t,                                                       \
      (rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t))                                    \
    X(rd_kafka_message_destroy, void, (rd_kafka_message_t *))                                      \
    X(rd_kafka_message_timestamp, int64_t, (const rd_kafka_message_t *, int *))                    \
    X(rd_kafka_message_leader_epoch, int32_t, (const rd_kafka_message_t *))                        \
    X(rd_kafka_message_errstr, const char *, (const rd_kafka_message_t *))                         \
    X(rd_kafka_message_headers, int, (const rd_kafka_message_t *, rd_kafka_headers_t **))          \
    X(rd_kafka_header_get_all, int,                                                                \
      (const rd_kafka_headers_t *, size_t, const char **, const void **, size_t *))                \
    X(rd_kafka_topic_name, const char *, (const rd_kafka_topic_t *))

#define DECLARE(name, result, parameters) result(*name) parameters;
extern struct librdkafka {
    FUNCTIONS(DECLARE)
} rdk;

#endif
