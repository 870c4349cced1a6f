/* From messages to columns: one pass that measures, one that copies. */
#include "fetch.h"

#include <string.h>

/* More does not fit the offsets of an Arrow column. */
#ifndef COLUMN_BYTES_MAX
#define COLUMN_BYTES_MAX INT32_MAX
#endif
/* Messages were made on another thread: what is read of one is asked for so many earlier. */
#define AHEAD 16

/* Tell whether a name is what Python takes for UTF-8. */
static bool is_utf8(const char *name, size_t size)
{
    const uint8_t *at = (const uint8_t *)name, *end = at + size;
    while (at < end) {
        size_t more = *at < 0x80 ? 0 : *at < 0xe0 ? 1 : *at < 0xf0 ? 2 : 3;
        if ((*at >= 0x80 && *at < 0xc2) || *at > 0xf4 || more > (size_t)(end - at - 1))
            return false;
        if (more >= 2 && ((*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] > 0x9f)
                          || (*at == 0xf0 && at[1] < 0x90) || (*at == 0xf4 && at[1] > 0x8f)))
            return false;
        for (at++; more > 0; more--, at++)
            if ((*at & 0xc0) != 0x80)
                return false;
    }
    return true;
}

/* What the variable columns hold so far. */
struct sums {
    uint64_t keys, values, names, contents, topics;
    int64_t headers, null_contents;
};

struct header {
    const char *name;
    const void *content;
    size_t name_size, size;
};

static const rd_kafka_headers_t *headers_of(const rd_kafka_message_t *m)
{
    rd_kafka_headers_t *headers;
    return rdk.rd_kafka_message_headers(m, &headers) == 0 ? headers : NULL;
}

/* Look a header up; return whether there are so many. */
static bool get_header(const rd_kafka_headers_t *headers, size_t at, struct header *h)
{
    if (headers == NULL
        || rdk.rd_kafka_header_get_all(headers, at, &h->name, &h->content, &h->size) != 0)
        return false;
    h->name_size = strlen(h->name);
    return true;
}

/* Add a message's headers; return what is to be noted of them. */
static int measure_headers(const rd_kafka_message_t *m, struct sums *sums)
{
    const rd_kafka_headers_t *headers = headers_of(m);
    struct sums with = *sums;
    struct header h;
    for (size_t each = 0; get_header(headers, each, &h); each++) {
        if (!is_utf8(h.name, h.name_size))
            return IS_MISNAMED;
        with.names += h.name_size;
        with.contents += h.content == NULL ? 0 : h.size;
        with.null_contents += h.content == NULL;
        with.headers++;
    }
    if (with.headers == sums->headers)
        return 0;
    *sums = with;
    return HAS_HEADERS;
}

static size_t slot_of(const char *topic, int32_t partition)
{
    uint64_t hash = 1469598103934665603u ^ (uint32_t)partition;
    for (; *topic != '\0'; topic++)
        hash = (hash ^ (uint8_t)*topic) * 1099511628211u;
    return (size_t)(hash ^ hash >> 32);
}

static const char *topic_of(const rd_kafka_message_t *m)
{
    return m->rkt == NULL ? "" : rdk.rd_kafka_topic_name(m->rkt);
}

/* Return the run of a message; it may be its first. */
static struct run *find_run(struct fetch *f, const rd_kafka_message_t *m, int64_t *runs)
{
    const char *topic = topic_of(m);
    for (size_t slot = slot_of(topic, m->partition);; slot++) {
        uint32_t *found = &f->table[slot & f->table_mask];
        if (*found == 0) {
            *found = (uint32_t)++*runs;
            f->runs[*found - 1] = (struct run){.first = m};
            return &f->runs[*found - 1];
        }
        struct run *run = &f->runs[*found - 1];
        if (run->first->partition == m->partition
            && (run->first->rkt == m->rkt || strcmp(topic_of(run->first), topic) == 0))
            return run;
    }
}

static void lay_out(
    struct fetch_result *s, const struct sums *sums, const rd_kafka_message_t *fault)
{
    const int64_t n = s->records, ends = 4 * (n + 1), bits = (n + 7) / 8;
    int64_t size[COLUMNS] = {
        [OFFSETS] = 8 * n,
        [TIMESTAMPS] = 8 * n,
        [KINDS] = n,
        [KEYS_VALID] = s->null_keys > 0 ? bits : 0,
        [KEYS_ENDS] = ends,
        [KEYS] = (int64_t)sums->keys,
        [VALUES_VALID] = s->null_values > 0 ? bits : 0,
        [VALUES_ENDS] = ends,
        [VALUES] = (int64_t)sums->values,
        [MISNAMED] = s->misnamed > 0 ? n : 0,
        [RUNS] = s->runs * (int64_t)sizeof(struct told_run),
        [TOPICS] = (int64_t)sums->topics,
    };
    if (sums->headers > 0) {
        size[HEADERS_VALID] = s->with_headers < n ? bits : 0;
        size[HEADERS_ENDS] = ends;
        size[NAMES_ENDS] = size[CONTENTS_ENDS] = 4 * (sums->headers + 1);
        size[NAMES] = (int64_t)sums->names;
        size[CONTENTS_VALID] = sums->null_contents > 0 ? (sums->headers + 7) / 8 : 0;
        size[CONTENTS] = (int64_t)sums->contents;
    }
    if (fault != NULL) {
        size[FAULT_TOPIC] = (int64_t)strlen(topic_of(fault));
        size[FAULT_TEXT] = (int64_t)strlen(rdk.rd_kafka_message_errstr(fault));
        s->fault_code = fault->err;
        s->fault_partition = fault->partition;
        s->fault_offset = fault->offset;
    }
    s->headers = sums->headers;
    s->null_contents = sums->null_contents;
    for (int column = 0; column < COLUMNS; column++) {
        s->at[column] = s->bytes;
        s->size[column] = size[column];
        s->bytes += (size[column] + 63) / 64 * 64;
    }
}

/* Give every run its place, and every place its message. */
static void put_in_order(struct fetch *f, const struct fetch_result *s)
{
    int64_t start = 0;
    for (int64_t each = 0; each < s->runs; each++) {
        struct run *run = &f->runs[each];
        run->start = start;
        start += run->count;
        run->count = 0;
    }
    for (int64_t each = 0; each < s->records; each++) {
        struct run *run = &f->runs[f->notes[each].run];
        f->order[run->start + run->count++] = (uint32_t)each;
    }
}

/* Measure the next result; all of it is zero if nothing is left. */
EXPORT void shardlog_next(struct fetch *f, struct fetch_result *told)
{
    struct fetch_result s = {0};
    struct sums sums = {0};
    struct run *run = NULL;
    const rd_kafka_message_t *fault = NULL;
    pthread_mutex_lock(&f->lock);
    size_t at = f->at;
    if (at < f->end)
        memset(f->table, 0, (f->table_mask + 1) * sizeof *f->table);
    for (; at < f->end; at++) {
        const rd_kafka_message_t *m = f->messages[at];
        if (at + AHEAD < f->end) {
            __builtin_prefetch(f->messages[at + AHEAD]);
            __builtin_prefetch((const char *)f->messages[at + AHEAD] + 64);
            const rd_kafka_message_t *soon = f->messages[at + AHEAD / 2];
            __builtin_prefetch(soon->key);
        }
        if (m->err != 0) {
            fault = m;
            break;
        }
        struct sums with = sums;
        with.keys += m->key == NULL ? 0 : m->key_len;
        with.values += m->payload == NULL ? 0 : m->len;
        int of_headers = shardlog_proves_no_headers(m) ? 0 : measure_headers(m, &with);
        if (s.records > 0
            && (with.keys > COLUMN_BYTES_MAX || with.values > COLUMN_BYTES_MAX
                || with.names > COLUMN_BYTES_MAX || with.contents > COLUMN_BYTES_MAX))
            break;
        sums = with;
        s.null_keys += m->key == NULL;
        s.null_values += m->payload == NULL;
        s.with_headers += of_headers == HAS_HEADERS;
        s.misnamed += of_headers == IS_MISNAMED;
        if (run == NULL || run->last->rkt != m->rkt || run->last->partition != m->partition)
            run = find_run(f, m, &s.runs);
        run->last = m;
        run->count++;
        f->notes[s.records++] = (struct note){(uint32_t)(run - f->runs), of_headers};
    }
    s.has_fault = fault != NULL;
    s.left = (int64_t)(f->end - at) - s.has_fault;
    for (int64_t each = 0; each < s.runs; each++)
        sums.topics += strlen(topic_of(f->runs[each].first));
    lay_out(&s, &sums, fault);
    put_in_order(f, &s);
    *told = f->result = s;
    pthread_mutex_unlock(&f->lock);
}

/* --- copying ------------------------------------------------------------------------------- */

/* A column of bytes of any length, as it grows. */
struct binary {
    uint8_t *valid; /* null where none of it is null */
    int32_t *ends;
    uint8_t *bytes;
    int64_t number;
};

static void *column_of(const struct fetch_result *s, uint8_t *buffer, enum column column)
{
    return s->size[column] > 0 ? buffer + s->at[column] : NULL;
}

static struct binary binary_of(const struct fetch_result *s, uint8_t *buffer, enum column valid)
{
    struct binary found = {
        .valid = column_of(s, buffer, valid),
        .ends = column_of(s, buffer, valid + 1),
        .bytes = buffer + s->at[valid + 2],
    };
    if (found.valid != NULL)
        memset(found.valid, 0, (size_t)s->size[valid]);
    if (found.ends != NULL)
        found.ends[0] = 0;
    return found;
}

static void set_bit(uint8_t *bits, int64_t at)
{
    bits[at / 8] |= (uint8_t)(1u << at % 8);
}

static inline void add(struct binary *to, const void *bytes, size_t size)
{
    int32_t end = to->ends[to->number];
    if (bytes != NULL) {
        memcpy(to->bytes + end, bytes, size);
        end += (int32_t)size;
        if (to->valid != NULL)
            set_bit(to->valid, to->number);
    }
    to->ends[++to->number] = end;
}

static void add_headers(
    const rd_kafka_message_t *m, struct binary *names, struct binary *contents)
{
    const rd_kafka_headers_t *headers = headers_of(m);
    struct header h;
    for (size_t each = 0; get_header(headers, each, &h); each++) {
        add(names, h.name, h.name_size);
        add(contents, h.content, h.size);
    }
}

/* Write whose the records are, and the texts of the fault behind them. */
static void tell(const struct fetch *f, uint8_t *buffer)
{
    const struct fetch_result *s = &f->result;
    struct told_run *told = column_of(s, buffer, RUNS);
    int64_t topic_end = 0;
    for (int64_t each = 0; each < s->runs; each++) {
        const struct run *run = &f->runs[each];
        size_t size = strlen(topic_of(run->first));
        memcpy(buffer + s->at[TOPICS] + topic_end, topic_of(run->first), size);
        topic_end += (int64_t)size;
        told[each] = (struct told_run){
            .topic_end = topic_end,
            .partition = run->first->partition,
            .start = run->start,
            .end = run->start + run->count,
            .epoch = rdk.rd_kafka_message_leader_epoch(run->last),
        };
    }
    if (s->has_fault) {
        const rd_kafka_message_t *fault = f->messages[f->at + (size_t)s->records];
        memcpy(buffer + s->at[FAULT_TOPIC], topic_of(fault), (size_t)s->size[FAULT_TOPIC]);
        memcpy(buffer + s->at[FAULT_TEXT], rdk.rd_kafka_message_errstr(fault),
               (size_t)s->size[FAULT_TEXT]);
    }
}

/* Copy the result into a buffer of `bytes`, and destroy its messages; return how many bytes, which
 * is none if the client has ended. */
EXPORT int64_t shardlog_fill(struct fetch *f, uint8_t *buffer)
{
    pthread_mutex_lock(&f->lock);
    const struct fetch_result *s = &f->result;
    const int64_t records = s->records, bytes = s->bytes;
    tell(f, buffer);
    int64_t *offsets = column_of(s, buffer, OFFSETS);
    int64_t *timestamps = column_of(s, buffer, TIMESTAMPS);
    int8_t *kinds = column_of(s, buffer, KINDS);
    uint8_t *misnamed = column_of(s, buffer, MISNAMED);
    uint8_t *with_headers = column_of(s, buffer, HEADERS_VALID);
    int32_t *headers_ends = column_of(s, buffer, HEADERS_ENDS);
    struct binary keys = binary_of(s, buffer, KEYS_VALID);
    struct binary values = binary_of(s, buffer, VALUES_VALID);
    struct binary names = binary_of(s, buffer, NAMES_VALID);
    struct binary contents = binary_of(s, buffer, CONTENTS_VALID);
    if (with_headers != NULL)
        memset(with_headers, 0, (size_t)s->size[HEADERS_VALID]);
    if (headers_ends != NULL)
        headers_ends[0] = 0;
    rd_kafka_message_t **own = f->messages + f->at;
    for (int64_t each = 0; each < records; each++) {
        uint32_t place = f->order[each];
        rd_kafka_message_t *m = own[place];
        int kind = 0;
        if (each + AHEAD < records)
            __builtin_prefetch(own[f->order[each + AHEAD]]->payload);
        offsets[each] = m->offset;
        timestamps[each] = rdk.rd_kafka_message_timestamp(m, &kind);
        kinds[each] = (int8_t)kind;
        add(&keys, m->key, m->key_len);
        add(&values, m->payload, m->len);
        if (misnamed != NULL)
            misnamed[each] = f->notes[place].of_headers == IS_MISNAMED;
        if (headers_ends != NULL) {
            if (f->notes[place].of_headers == HAS_HEADERS) {
                add_headers(m, &names, &contents);
                if (with_headers != NULL)
                    set_bit(with_headers, each);
            }
            headers_ends[each + 1] = (int32_t)names.number;
        }
        rdk.rd_kafka_message_destroy(m);
    }
    shardlog_count(MESSAGES_GONE, records);
    f->at += (size_t)records;
    shardlog_end_messages(f, f->at + (size_t)s->has_fault);
    pthread_mutex_unlock(&f->lock);
    return bytes;
}
