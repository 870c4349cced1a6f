/* Arbitrary messages, as librdkafka may hand them over, each with a model that outlives it.
 *
 * A key or a value is an allocation of its own size, or all of a call lie in records beside each
 * other, as they were fetched: some of those are harmed, and some say of headers what is not so.
 */
#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch.h"

#define CHECK(claim)                                                                               \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #claim);                    \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* As a name of a header it fills the column of names before any other is full. */
#define LONG_PART "a name that is not short "
#define LONG_PARTS LONG_PART LONG_PART LONG_PART LONG_PART
#define LONG LONG_PARTS LONG_PARTS LONG_PARTS LONG_PARTS

enum { TOPICS_MADE = 4, PARTITIONS = 3, MESSAGES_MAX = 200, HEADERS_MAX = 3 };

static uint64_t state;

static uint32_t below(uint32_t end)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % end;
}

/* --- what is faked ------------------------------------------------------------------------- */

struct rd_kafka_topic_s {
    const char *name;
};
struct rd_kafka_headers_s {
    size_t number;
    char *name[HEADERS_MAX];
    void *content[HEADERS_MAX];
    size_t size[HEADERS_MAX];
};
struct rd_kafka_queue_s {
    int unused;
};
struct rd_kafka_s {
    on_destroy_f *on_destroy;
    void *opaque;
};
/* Records as they were fetched; they go with the last message of them. */
struct fetched {
    size_t users;
    uint8_t bytes[];
};
struct message {
    rd_kafka_message_t m;
    int64_t timestamp;
    int kind;
    int32_t epoch;
    bool is_misnamed, is_read, is_asked;
    struct rd_kafka_headers_s *headers;
    struct message *model; /* a copy that outlives it */
    struct fetched *fetched; /* null: key and value are allocations of their own */
};

/* Two of them are one topic that librdkafka came to know twice. */
static struct rd_kafka_topic_s topics[TOPICS_MADE] = {{"a"}, {"b"}, {"b"}, {"longer"}};
static struct message *sent[MESSAGES_MAX];
static int sent_number;
static long long proved; /* messages of which nobody asked whether they have headers */
static on_new_f *told_new;
static struct fetch *opened;

static void *bytes_of(size_t size)
{
    uint8_t *made = malloc(size);
    for (size_t at = 0; at < size; at++)
        made[at] = (uint8_t)below(256);
    return made;
}

static void *copy_of(const void *bytes, size_t size)
{
    void *made = bytes == NULL ? NULL : malloc(size);
    if (made != NULL)
        memcpy(made, bytes, size);
    return made;
}

static struct rd_kafka_headers_s *headers_of(bool *is_misnamed)
{
    static const char *const names[] = {
        "", "h", "h", "\xc3\xa9t\xc3\xa9", "\xf0\x9f\x98\x80", LONG,
    };
    static const char *const wrong[] = {
        "\x80",      "\xc3", "\xed\xa0\x80", "\xc0\xaf",         "\xf4\x90\x80\x80",
        "a\xe2\x82", "\xff", "\xe0\x80\xaf", "\xf0\x80\x80\x80",
    };
    struct rd_kafka_headers_s *made = calloc(1, sizeof *made);
    made->number = below(HEADERS_MAX + 1);
    for (size_t each = 0; each < made->number; each++) {
        bool is_wrong = below(12) == 0;
        const char *name = is_wrong ? wrong[below(9)] : names[below(6)];
        *is_misnamed |= is_wrong;
        made->name[each] = copy_of(name, strlen(name) + 1);
        made->size[each] = below(9) == 0 ? below(900) : below(5);
        made->content[each] = below(4) == 0 ? NULL : bytes_of(made->size[each]);
    }
    return made;
}

static struct rd_kafka_headers_s *copy_headers(const struct rd_kafka_headers_s *headers)
{
    if (headers == NULL)
        return NULL;
    struct rd_kafka_headers_s *made = copy_of(headers, sizeof *headers);
    for (size_t each = 0; each < made->number; each++) {
        made->name[each] = copy_of(headers->name[each], strlen(headers->name[each]) + 1);
        made->content[each] = copy_of(headers->content[each], made->size[each]);
    }
    return made;
}

static void end_message(struct message *message)
{
    if (message->fetched == NULL) {
        free(message->m.payload);
        free(message->m.key);
    } else if (--message->fetched->users == 0) {
        free(message->fetched);
    }
    for (size_t each = 0; message->headers != NULL && each < message->headers->number; each++) {
        free(message->headers->name[each]);
        free(message->headers->content[each]);
    }
    free(message->headers);
    free(message);
}

static struct message *new_message(int64_t offset, uint32_t faults)
{
    struct message *made = calloc(1, sizeof *made);
    rd_kafka_message_t *m = &made->m;
    bool has_value = below(6) != 0, has_key = below(3) != 0;
    m->err = below(100) < faults ? 1 + (int)below(40) : 0;
    m->rkt = m->err != 0 && below(2) == 0 ? NULL : &topics[below(TOPICS_MADE)];
    m->partition = (int32_t)below(PARTITIONS);
    m->offset = offset;
    m->len = has_value ? below(4) * below(60) : 0;
    m->payload = has_value ? bytes_of(m->len) : NULL;
    m->key_len = has_key ? below(7) : 0;
    m->key = has_key ? bytes_of(m->key_len) : NULL;
    made->timestamp = (int64_t)below(1000) - 1;
    made->kind = (int)below(3);
    made->epoch = (int32_t)below(4) - 1;
    made->headers = below(3) == 0 ? headers_of(&made->is_misnamed) : NULL;
    made->model = copy_of(made, sizeof *made);
    made->model->m.payload = copy_of(m->payload, m->len);
    made->model->m.key = copy_of(m->key, m->key_len);
    made->model->headers = copy_headers(made->headers);
    return made;
}

static size_t put_number(uint8_t *to, int64_t number)
{
    uint64_t left = (uint64_t)number << 1 ^ (uint64_t)(number >> 63);
    size_t size = 0;
    for (; left >= 0x80; left >>= 7)
        to[size++] = (uint8_t)(left | 0x80);
    to[size++] = (uint8_t)left;
    return size;
}

static size_t put_value(uint8_t *to, void **value, size_t size)
{
    if (*value != NULL)
        memcpy(to, *value, size);
    free(*value);
    *value = *value == NULL ? NULL : to;
    return *value == NULL ? 0 : size;
}

/* What of a record is not as it was sent; NOTHING of two in three. */
enum harm {
    LENGTH,
    ATTRIBUTES,
    OFFSET,
    KEY_SIZE,
    VALUE_SIZE,
    BYTE_BEFORE,
    BYTE_BETWEEN,
    NOTHING,
    HARMS = 21,
};

/* Write the record of a message up to its value, `behind` bytes of headers being left to write. */
static size_t put_record(uint8_t *to, rd_kafka_message_t *m, enum harm harm, size_t behind)
{
    uint8_t body[64], value_size[10];
    size_t head = 0, size = 0;
    body[head++] = harm == ATTRIBUTES ? (uint8_t)(1 + below(255)) : 0;
    head += put_number(body + head, below(3) == 0 ? (int64_t)below(1u << 30) : below(50));
    head += put_number(body + head, below(200));
    if (harm == OFFSET) /* does not end */
        body[head++] = 0x80;
    head += put_number(body + head,
                       (m->key == NULL ? -1 : (int64_t)m->key_len) + (harm == KEY_SIZE));
    size_t value_head = put_number(
        value_size, (m->payload == NULL ? -1 : (int64_t)m->len) + (harm == VALUE_SIZE));
    int64_t length = (int64_t)(head + m->key_len + value_head + m->len + behind);
    size += put_number(to, harm == LENGTH ? length + 1 + below(20) : length);
    memcpy(to + size, body, head);
    size += head;
    if (harm == BYTE_BEFORE)
        to[size++] = (uint8_t)below(256);
    size += put_value(to + size, &m->key, m->key_len);
    memcpy(to + size, value_size, value_head);
    size += value_head;
    if (harm == BYTE_BETWEEN)
        to[size++] = (uint8_t)below(256);
    return size + put_value(to + size, &m->payload, m->len);
}

/* Begin another buffer where an allocator would: an aligned word of its own behind this one. */
static size_t next_buffer(const uint8_t *bytes, size_t size)
{
    uintptr_t end = (uintptr_t)(bytes + size);
    return size + (size_t)(((end + 7) / 16 * 16 + 16) - end);
}

/* Lay what is sent as it is fetched, in buffers that are an allocator's word apart; what lies
 * between two of them is not to be read. Of a message with headers it says so; or, where the record
 * is harmed and proves nothing, that there are none. */
static void lay_as_fetched(void)
{
    size_t room = sizeof(struct fetched), size = 0;
    size_t ends[MESSAGES_MAX], starts[MESSAGES_MAX];
    for (int each = 0; each < sent_number; each++)
        room += sent[each]->m.len + sent[each]->m.key_len + 130;
    struct fetched *rough = calloc(1, room);
    for (int each = 0; each < sent_number; each++) {
        struct message *message = sent[each];
        enum harm harm = (enum harm)below(HARMS);
        bool has_headers = message->headers != NULL && message->headers->number > 0;
        bool is_told = has_headers && (harm >= NOTHING || below(2) == 0);
        /* Formats 0 and 1 know of no headers. */
        size_t behind = is_told ? 4 + below(20) : has_headers || below(8) != 0;
        starts[each] = size;
        size += put_record(rough->bytes + size, &message->m, harm, behind);
        for (size_t left = behind; left > 0; left--)
            rough->bytes[size++] = is_told ? (uint8_t)(left == behind ? 2 : below(256)) : 0;
        ends[each] = size;
        if (below(4) == 0)
            size = next_buffer(rough->bytes, size);
    }
    struct fetched *exact = malloc(sizeof *exact + size);
    memcpy(exact->bytes, rough->bytes, size);
    exact->users = (size_t)sent_number;
    for (int each = 0; each < sent_number; each++) {
        rd_kafka_message_t *m = &sent[each]->m;
        size_t end = each + 1 < sent_number ? starts[each + 1] : size;
        ASAN_POISON_MEMORY_REGION(exact->bytes + ends[each], end - ends[each]);
        sent[each]->fetched = exact;
        if (m->key != NULL)
            m->key = exact->bytes + ((uint8_t *)m->key - rough->bytes);
        if (m->payload != NULL)
            m->payload = exact->bytes + ((uint8_t *)m->payload - rough->bytes);
    }
    free(rough);
}
