/* The client's end of a fetch: its handle, partitions' queues, messages taken. */
#define _GNU_SOURCE
#include "fetch.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct librdkafka rdk;

static atomic_llong counters[COUNTERS];

/* What librdkafka made last on this thread, until Python takes it. */
static _Thread_local struct fetch *made;

/* Whose messages this thread is taking. */
static _Thread_local struct fetch *taking;

/* What errors are told to that come elsewhere: confluent_kafka's, the same for all its clients. */
static _Atomic(error_f *) told_elsewhere;

void shardlog_count(enum counter counter, int64_t number)
{
    atomic_fetch_add_explicit(&counters[counter], number, memory_order_relaxed);
}

static void end_queue(rd_kafka_queue_t *queue)
{
    rdk.rd_kafka_queue_destroy(queue);
    shardlog_count(QUEUES_GONE, 1);
}

void shardlog_end_messages(struct fetch *f, size_t end)
{
    f->result = (struct fetch_result){0};
    shardlog_count(MESSAGES_GONE, (int64_t)(end - f->at));
    for (; f->at < end; f->at++)
        rdk.rd_kafka_message_destroy(f->messages[f->at]);
}

static void end_source(struct fetch *f, int64_t source)
{
    if (f->sources[source] == NULL)
        return;
    rdk.rd_kafka_queue_forward(f->sources[source], NULL);
    end_queue(f->sources[source]);
    f->sources[source] = NULL;
}

/* End what belongs to the client: messages, partitions' queues, our queue. With the lock. */
static void detach(struct fetch *f)
{
    if (f->queue == NULL)
        return;
    shardlog_end_messages(f, f->end);
    for (int64_t source = 0; source < f->sources_room; source++)
        end_source(f, source);
    end_queue(f->queue);
    f->queue = NULL;
}

static void disown(struct fetch *f)
{
    if (atomic_fetch_sub(&f->owners, 1) > 1)
        return;
    pthread_mutex_destroy(&f->lock);
    free(f->sources);
    free(f->messages);
    free(f->notes);
    free(f->order);
    free(f->runs);
    free(f->table);
    free(f);
}

static rd_kafka_error_code on_destroy(rd_kafka_t *client, void *opaque)
{
    struct fetch *f = opaque;
    (void)client;
    pthread_mutex_lock(&f->lock);
    detach(f);
    f->client = NULL;
    pthread_mutex_unlock(&f->lock);
    disown(f);
    return 0;
}

/* Be told of errors of the client. One that comes while messages are taken is kept for Python:
 * confluent_kafka's own function ends the process where no call of its own is under way. */
static void on_error(rd_kafka_t *client, int code, const char *text, void *opaque)
{
    error_f *elsewhere = atomic_load(&told_elsewhere);
    if (taking == NULL) {
        if (elsewhere != NULL)
            elsewhere(client, code, text, opaque);
        return;
    }
    taking->error_code = code;
    snprintf(taking->error_text, sizeof taking->error_text, "%s", text == NULL ? "" : text);
}

/* Take the place of what the client's errors are told to; false if there is another thing than the
 * clients before had.
 *
 * NOTE: librdkafka (2.16) has no other way to know its function than as the text of its address. */
static bool be_told_of_errors(const rd_kafka_conf_t *conf)
{
    char text[32] = "";
    size_t size = sizeof text;
    void *found = NULL;
    error_f *known = NULL;
    if (rdk.rd_kafka_conf_get(conf, "error_cb", text, &size) == 0
        && sscanf(text, "%p", &found) != 1)
        found = NULL;
    error_f *theirs = NULL;
    memcpy(&theirs, &found, sizeof theirs);
    if (!atomic_compare_exchange_strong(&told_elsewhere, &known, theirs) && known != theirs)
        return false;
    rdk.rd_kafka_conf_set_error_cb((rd_kafka_conf_t *)(uintptr_t)conf, on_error);
    return true;
}

static rd_kafka_error_code on_new(
    rd_kafka_t *client, const rd_kafka_conf_t *conf, void *opaque, char *text, size_t text_size)
{
    (void)opaque, (void)text, (void)text_size;
    if (!be_told_of_errors(conf))
        return 0; /* Python finds that there is none. */
    struct fetch *f = calloc(1, sizeof *f);
    if (f == NULL)
        return 0;
    pthread_mutex_init(&f->lock, NULL);
    f->client = client;
    f->owners = 1;
    if (rdk.rd_kafka_interceptor_add_on_destroy(client, "shardlog", on_destroy, f) != 0) {
        disown(f);
        return 0;
    }
    made = f;
    return 0;
}

/* Called by librdkafka when the library is named in plugin.library.paths, on the thread that then
 * makes the client. */
EXPORT rd_kafka_error_code conf_init(
    rd_kafka_conf_t *conf, void **plugin_opaque, char *text, size_t text_size)
{
    (void)plugin_opaque, (void)text, (void)text_size;
    made = NULL;
    if (rdk.rd_kafka_conf_interceptor_add_on_new != NULL)
        rdk.rd_kafka_conf_interceptor_add_on_new(conf, "shardlog", on_new, NULL);
    return 0;
}

/* --- binding and making -------------------------------------------------------------------- */

EXPORT int shardlog_abi(void)
{
    return ABI;
}

/* Look functions up in what a library of confluent_kafka, loaded already, stands on; of the process
 * if it is null. Return the name of what is missing, null if nothing is. */
EXPORT const char *shardlog_bind(const char *path)
{
    void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL)
        return "the library itself";
#define BIND(name, result, parameters)                                                             \
    *(void **)&rdk.name = dlsym(library, #name);                                                   \
    if (rdk.name == NULL) {                                                                        \
        memset(&rdk, 0, sizeof rdk);                                                               \
        return #name;                                                                              \
    }
    FUNCTIONS(BIND)
    return NULL;
}

EXPORT void shardlog_counters(int64_t told[COUNTERS])
{
    for (int counter = 0; counter < COUNTERS; counter++)
        told[counter] = atomic_load(&counters[counter]);
}

/* Return the consumer that was made last on this thread, if this is what its owner is called; else
 * null. */
EXPORT struct fetch *shardlog_open(const void *opaque)
{
    struct fetch *f = made;
    made = NULL;
    if (f == NULL || rdk.rd_kafka_opaque(f->client) != opaque)
        return NULL;
    f->queue = rdk.rd_kafka_queue_new(f->client);
    if (f->queue == NULL)
        return NULL;
    shardlog_count(QUEUES_MADE, 1);
    atomic_fetch_add(&f->owners, 1);
    return f;
}

EXPORT void shardlog_detach(struct fetch *f)
{
    pthread_mutex_lock(&f->lock);
    detach(f);
    pthread_mutex_unlock(&f->lock);
}

/* The last call. */
EXPORT void shardlog_free(struct fetch *f)
{
    shardlog_detach(f);
    disown(f);
}

/* --- partitions ---------------------------------------------------------------------------- */

static int64_t free_source(struct fetch *f)
{
    int64_t source = 0, room = f->sources_room * 2 + 8;
    while (source < f->sources_room && f->sources[source] != NULL)
        source++;
    if (source < f->sources_room)
        return source;
    rd_kafka_queue_t **grown = realloc(f->sources, (size_t)room * sizeof *grown);
    if (grown == NULL)
        return -1;
    memset(grown + source, 0, (size_t)(room - source) * sizeof *grown);
    f->sources = grown;
    f->sources_room = room;
    return source;
}

/* Have a partition's records come to our queue; return the number of its source, -1 if there is no
 * memory for it, -2 if the client has ended. */
EXPORT int64_t shardlog_hold(struct fetch *f, const char *topic, int32_t partition)
{
    int64_t source = -2;
    pthread_mutex_lock(&f->lock);
    if (f->queue != NULL && (source = free_source(f)) >= 0) {
        f->sources[source] = rdk.rd_kafka_queue_get_partition(f->client, topic, partition);
        if (f->sources[source] == NULL) {
            source = -1;
        } else {
            shardlog_count(QUEUES_MADE, 1);
            rdk.rd_kafka_queue_forward(f->sources[source], f->queue);
        }
    }
    pthread_mutex_unlock(&f->lock);
    return source;
}

/* Do so again for partitions held.
 *
 * A fetch that ends, ends the forwarding too, at some time after it was asked to: that of a
 * partition given back and taken at once would else stay ended. */
EXPORT void shardlog_forward(struct fetch *f, const int64_t *sources, int64_t number)
{
    pthread_mutex_lock(&f->lock);
    for (int64_t each = 0; f->queue != NULL && each < number; each++)
        rdk.rd_kafka_queue_forward(f->sources[sources[each]], f->queue);
    pthread_mutex_unlock(&f->lock);
}

EXPORT void shardlog_give_back(struct fetch *f, int64_t source)
{
    pthread_mutex_lock(&f->lock);
    if (f->queue != NULL)
        end_source(f, source);
    pthread_mutex_unlock(&f->lock);
}

/* --- taking messages --------------------------------------------------------------------- */

#define GROW(field, number)                                                                        \
    do {                                                                                           \
        void *grown = realloc(f->field, (number) * sizeof *f->field);                              \
        if (grown == NULL)                                                                         \
            return false;                                                                          \
        f->field = grown;                                                                          \
    } while (0)

static bool make_room(struct fetch *f, size_t most)
{
    size_t slots = 16;
    if (most <= f->room)
        return true;
    while (slots < 2 * most)
        slots *= 2;
    GROW(messages, most);
    GROW(notes, most);
    GROW(order, most);
    GROW(runs, most);
    GROW(table, slots);
    f->table_mask = slots - 1;
    f->room = most;
    return true;
}

/* Get messages; return how many, -1 if there is no memory for them, -2 if the client has ended. */
EXPORT int64_t shardlog_take(struct fetch *f, int64_t most, int64_t wait_ms)
{
    int64_t taken = -2;
    pthread_mutex_lock(&f->lock);
    if (f->queue != NULL) {
        shardlog_end_messages(f, f->end);
        f->at = f->end = 0;
        taken = -1;
        if (make_room(f, (size_t)most)) {
            taking = f;
            taken = rdk.rd_kafka_consume_batch_queue(
                f->queue, (int)wait_ms, f->messages, (size_t)most);
            taking = NULL;
            taken = taken < 0 ? 0 : taken;
            f->end = (size_t)taken;
            shardlog_count(MESSAGES_MADE, taken);
        }
    }
    pthread_mutex_unlock(&f->lock);
    return taken;
}

/* Write the text of the last error that came while messages were taken, once, of at most
 * ERROR_TEXT_MAX bytes; return its code, 0 if there is none. */
EXPORT int64_t shardlog_error(struct fetch *f, char *text)
{
    pthread_mutex_lock(&f->lock);
    const int code = f->error_code;
    if (code != 0)
        memcpy(text, f->error_text, sizeof f->error_text);
    f->error_code = 0;
    pthread_mutex_unlock(&f->lock);
    return code;
}
