/* Arbitrary messages through the compiled fetch, held against a plain model; librdkafka is faked.
 *
 *     native_fuzz SEED ROUNDS
 *
 * Every payload is an allocation of its own size, or lies where it does when it was fetched, beside
 * others; and so is every buffer that is filled: built with AddressSanitizer, a byte read or
 * written beside them is told. Columns are small here (COLUMN_BYTES_MAX), so that results end
 * because a column is full, too.
 */
#define _DEFAULT_SOURCE
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fetch.h"
#include "native_messages.h"

int conf_init(rd_kafka_conf_t *, void **, char *, size_t);
const char *shardlog_bind(const char *);
void shardlog_counters(int64_t[COUNTERS]);
struct fetch *shardlog_open(const void *);
void shardlog_detach(struct fetch *);
void shardlog_free(struct fetch *);
int64_t shardlog_hold(struct fetch *, const char *, int32_t);
void shardlog_forward(struct fetch *, const int64_t *, int64_t);
void shardlog_give_back(struct fetch *, int64_t);
int64_t shardlog_take(struct fetch *, int64_t, int64_t);
void shardlog_next(struct fetch *, struct fetch_result *);
int64_t shardlog_fill(struct fetch *, uint8_t *);
int64_t shardlog_error(struct fetch *, char *);

/* What concerns queues and messages is called under the lock: the client may end at any time. */
static void check_lock(void)
{
    CHECK(opened == NULL || pthread_mutex_trylock(&opened->lock) == EBUSY);
}

#define FAKE __attribute__((visibility("default")))

FAKE int rd_kafka_conf_interceptor_add_on_new(
    rd_kafka_conf_t *conf, const char *name, on_new_f *on_new, void *opaque)
{
    (void)conf, (void)name, (void)opaque;
    told_new = on_new;
    return 0;
}
FAKE int rd_kafka_interceptor_add_on_destroy(
    rd_kafka_t *client, const char *name, on_destroy_f *on_destroy, void *opaque)
{
    (void)name;
    client->on_destroy = on_destroy;
    client->opaque = opaque;
    return 0;
}
/* What confluent_kafka has errors told to: it may not be called while messages are taken. */
static bool is_taking;
static int told_theirs, told_ours;
static error_f *own_error;

static void their_error(rd_kafka_t *client, int code, const char *text, void *opaque)
{
    (void)client, (void)text, (void)opaque;
    CHECK(!is_taking);
    told_theirs = code;
}

FAKE int rd_kafka_conf_get(
    const rd_kafka_conf_t *conf, const char *name, char *into, size_t *size)
{
    error_f *theirs = their_error;
    void *place;
    (void)conf;
    CHECK(strcmp(name, "error_cb") == 0);
    memcpy(&place, &theirs, sizeof place);
    snprintf(into, *size, "%p", place);
    return 0;
}
FAKE void rd_kafka_conf_set_error_cb(rd_kafka_conf_t *conf, error_f *own)
{
    (void)conf;
    own_error = own;
}
FAKE void *rd_kafka_opaque(const rd_kafka_t *client)
{
    return (void *)(uintptr_t)client;
}
FAKE rd_kafka_queue_t *rd_kafka_queue_new(rd_kafka_t *client)
{
    (void)client;
    return calloc(1, sizeof(rd_kafka_queue_t));
}
FAKE rd_kafka_queue_t *rd_kafka_queue_get_partition(
    rd_kafka_t *client, const char *topic, int32_t at)
{
    (void)topic, (void)at;
    check_lock();
    return rd_kafka_queue_new(client);
}
FAKE void rd_kafka_queue_forward(rd_kafka_queue_t *from, rd_kafka_queue_t *to)
{
    check_lock();
    from->unused = to == NULL ? 0 : to->unused;
}
FAKE void rd_kafka_queue_destroy(rd_kafka_queue_t *queue)
{
    check_lock();
    free(queue);
}
FAKE ssize_t rd_kafka_consume_batch_queue(
    rd_kafka_queue_t *queue, int wait_ms, rd_kafka_message_t **into, size_t most)
{
    (void)queue, (void)wait_ms;
    check_lock();
    CHECK((size_t)sent_number <= most);
    is_taking = true;
    for (uint32_t each = below(3); each > 0; each--)
        own_error(NULL, told_ours = 1 + (int)below(40), below(2) == 0 ? "gone" : LONG, NULL);
    is_taking = false;
    for (int each = 0; each < sent_number; each++)
        into[each] = &sent[each]->m;
    return sent_number;
}
FAKE void rd_kafka_message_destroy(rd_kafka_message_t *m)
{
    check_lock();
    proved += ((struct message *)m)->is_read && !((struct message *)m)->is_asked;
    end_message((struct message *)m);
}
FAKE int64_t rd_kafka_message_timestamp(const rd_kafka_message_t *m, int *kind)
{
    check_lock();
    ((struct message *)(uintptr_t)m)->is_read = true;
    *kind = ((const struct message *)m)->kind;
    return ((const struct message *)m)->timestamp;
}
FAKE int32_t rd_kafka_message_leader_epoch(const rd_kafka_message_t *m)
{
    check_lock();
    return ((const struct message *)m)->epoch;
}
FAKE const char *rd_kafka_message_errstr(const rd_kafka_message_t *m)
{
    check_lock();
    return m->err == 0 ? NULL : "what is wrong";
}
FAKE int rd_kafka_message_headers(const rd_kafka_message_t *m, rd_kafka_headers_t **headers)
{
    check_lock();
    ((struct message *)(uintptr_t)m)->is_asked = true;
    *headers = ((const struct message *)m)->headers;
    return *headers == NULL ? -156 : 0;
}
FAKE int rd_kafka_header_get_all(const rd_kafka_headers_t *headers, size_t at, const char **name,
                                 const void **content, size_t *size)
{
    check_lock();
    if (at >= headers->number)
        return -156;
    *name = headers->name[at];
    *content = headers->content[at];
    *size = headers->size[at];
    return 0;
}
FAKE const char *rd_kafka_topic_name(const rd_kafka_topic_t *topic)
{
    check_lock();
    return topic->name;
}

/* --- what must hold ------------------------------------------------------------------------ */

static bool is_text(const char *text, const uint8_t *found, int64_t size)
{
    return strlen(text) == (size_t)size && memcmp(text, found, (size_t)size) == 0;
}

static bool bit(const uint8_t *bits, int64_t at)
{
    return bits[at / 8] >> at % 8 & 1;
}

/* Hold an entry of a column of bytes against what it was made from. */
static void check_entry(const struct fetch_result *s, const uint8_t *buffer, enum column valid,
                        int64_t at, const void *wanted, size_t size)
{
    const enum column ends = valid + 1, bytes = valid + 2;
    const int32_t *found = (const int32_t *)(buffer + s->at[ends]) + at;
    bool is_null = s->size[valid] > 0 && !bit(buffer + s->at[valid], at);
    CHECK(is_null == (wanted == NULL));
    CHECK((size_t)(found[1] - found[0]) == (wanted == NULL ? 0 : size));
    CHECK(found[1] <= s->size[bytes] && found[0] >= 0);
    CHECK(wanted == NULL || memcmp(buffer + s->at[bytes] + found[0], wanted, size) == 0);
}

static void check_headers(
    const struct fetch_result *s, const uint8_t *buffer, int64_t at, const struct message *model)
{
    size_t number = model->headers == NULL || model->is_misnamed ? 0 : model->headers->number;
    CHECK((s->size[MISNAMED] > 0 && buffer[s->at[MISNAMED] + at]) == model->is_misnamed);
    if (s->size[HEADERS_ENDS] == 0) {
        CHECK(number == 0);
        return;
    }
    const int32_t *ends = (const int32_t *)(buffer + s->at[HEADERS_ENDS]) + at;
    CHECK((size_t)(ends[1] - ends[0]) == number);
    CHECK((s->size[HEADERS_VALID] == 0 || bit(buffer + s->at[HEADERS_VALID], at)) == (number > 0));
    for (size_t each = 0; each < number; each++) {
        const struct rd_kafka_headers_s *h = model->headers;
        int64_t entry = ends[0] + (int64_t)each;
        check_entry(s, buffer, NAMES_VALID, entry, h->name[each], strlen(h->name[each]));
        check_entry(s, buffer, CONTENTS_VALID, entry, h->content[each], h->size[each]);
    }
}

/* Hold a result against the models of its messages, whose order within a partition counts. */
static void check_result(
    const struct fetch_result *s, const uint8_t *buffer, struct message **models)
{
    static const enum column bounded[] = {KEYS, VALUES, NAMES, CONTENTS};
    const struct told_run *runs = (const struct told_run *)(buffer + s->at[RUNS]);
    int64_t place = 0, topic = s->at[TOPICS];
    CHECK(s->size[RUNS] == s->runs * (int64_t)sizeof *runs);
    for (int each = 0; each < 4; each++)
        CHECK(s->records == 1 || s->size[bounded[each]] <= COLUMN_BYTES_MAX);
    for (int64_t each = 0; each < s->runs; each++) {
        const struct message *last = NULL;
        int64_t topic_end = s->at[TOPICS] + runs[each].topic_end;
        CHECK(runs[each].start == place && runs[each].end > place);
        for (int64_t at = 0; at < s->records; at++) {
            const rd_kafka_message_t *m = &models[at]->m;
            if (m->partition != runs[each].partition
                || !is_text(m->rkt->name, buffer + topic, topic_end - topic))
                continue;
            last = models[at];
            CHECK(((const int64_t *)(buffer + s->at[OFFSETS]))[place] == m->offset);
            CHECK(((const int64_t *)(buffer + s->at[TIMESTAMPS]))[place] == last->timestamp);
            CHECK(((const int8_t *)(buffer + s->at[KINDS]))[place] == last->kind);
            check_entry(s, buffer, KEYS_VALID, place, m->key, m->key_len);
            check_entry(s, buffer, VALUES_VALID, place, m->payload, m->len);
            check_headers(s, buffer, place, last);
            place++;
        }
        CHECK(place == runs[each].end && last->epoch == runs[each].epoch);
        topic = topic_end;
    }
    CHECK(place == s->records && topic == s->at[TOPICS] + s->size[TOPICS]);
}

/* Hold the fault behind a result against the error event it was made from. */
static void check_fault(
    const struct fetch_result *s, const uint8_t *buffer, const rd_kafka_message_t *m)
{
    CHECK(s->fault_code == m->err && s->fault_partition == m->partition);
    CHECK(s->fault_offset == m->offset);
    CHECK(is_text("what is wrong", buffer + s->at[FAULT_TEXT], s->size[FAULT_TEXT]));
    CHECK(is_text(m->rkt == NULL ? "" : m->rkt->name, buffer + s->at[FAULT_TOPIC],
                  s->size[FAULT_TOPIC]));
}

/* Take what was sent, result by result; now and then give up between two. */
static void read_all(struct fetch *f, struct message **models)
{
    struct fetch_result s;
    for (int at = 0; at < sent_number; at += (int)(s.records + s.has_fault)) {
        uint8_t *buffer;
        shardlog_next(f, &s);
        if (below(50) == 0)
            shardlog_next(f, &s);
        if (below(50) == 0)
            return;
        CHECK(s.records > 0 || s.has_fault);
        CHECK(at + s.records + s.has_fault + s.left == sent_number);
        buffer = malloc((size_t)s.bytes);
        CHECK(shardlog_fill(f, buffer) == s.bytes);
        check_result(&s, buffer, models + at);
        if (s.has_fault)
            check_fault(&s, buffer, &models[at + s.records]->m);
        free(buffer);
    }
    shardlog_next(f, &s);
    CHECK(s.records == 0 && !s.has_fault && s.left == 0);
}

/* Hold the error of a take against the last that was told in it; others go where they went. */
static void check_error(struct fetch *f)
{
    char text[ERROR_TEXT_MAX] = "";
    CHECK(shardlog_error(f, text) == told_ours);
    CHECK(told_ours == 0 || strcmp(text, "gone") == 0 || strncmp(text, LONG, strlen(text)) == 0);
    CHECK(shardlog_error(f, text) == 0);
    told_ours = 0;
    own_error(NULL, 7, "of elsewhere", NULL);
    CHECK(told_theirs == 7 && shardlog_error(f, text) == 0);
    told_theirs = 0;
}

static void one_round(void)
{
    rd_kafka_t client = {0};
    struct message *models[MESSAGES_MAX];
    char text[64];
    int64_t source;
    conf_init(NULL, NULL, text, sizeof text);
    if (below(20) == 0) {
        /* One that comes to nothing before its owner has it. */
        told_new(&client, NULL, NULL, text, sizeof text);
        client.on_destroy(&client, client.opaque);
        conf_init(NULL, NULL, text, sizeof text);
        CHECK(shardlog_open(&client) == NULL);
    }
    told_new(&client, NULL, NULL, text, sizeof text);
    const void *owner = below(20) == 0 ? NULL : &client;
    struct fetch *f = opened = shardlog_open(owner);
    CHECK((f == NULL) == (owner == NULL));
    if (f != NULL) {
        for (uint32_t each = below(12); each > 0; each--) {
            source = shardlog_hold(f, topics[below(TOPICS_MADE)].name, (int32_t)below(PARTITIONS));
            CHECK(source >= 0);
            shardlog_forward(f, &source, 1);
            if (below(2) == 0)
                shardlog_give_back(f, source);
        }
        for (uint32_t each = below(4); each > 0; each--) {
            uint32_t faults = below(3) * 3;
            sent_number = (int)below(below(2) == 0 ? MESSAGES_MAX : 6);
            for (int at = 0; at < sent_number; at++) {
                sent[at] = new_message(at, faults);
                models[at] = sent[at]->model;
            }
            if (sent_number > 0 && below(2) == 0)
                lay_as_fetched();
            CHECK(shardlog_take(f, sent_number + (int64_t)below(3) + 1, 0) == sent_number);
            check_error(f);
            read_all(f, models);
            for (int at = 0; at < sent_number; at++)
                end_message(models[at]);
        }
        if (below(3) == 0)
            shardlog_detach(f);
        if (below(2) == 0)
            shardlog_free(f), f = NULL;
    }
    client.on_destroy(&client, client.opaque);
    opened = NULL;
    if (f != NULL) {
        CHECK(shardlog_take(f, 5, 0) == -2 && shardlog_hold(f, "a", 0) == -2);
        shardlog_free(f);
    }
}

/* A key so close behind what cannot be read that there is no whole head before it. */
static void read_page_start(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const int kind = MAP_PRIVATE | MAP_ANONYMOUS, access = PROT_READ | PROT_WRITE;
    uint8_t *pages = mmap(NULL, 2 * page, access, kind, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages, page, PROT_NONE) == 0);
    for (size_t before = 0; before < 40; before++) {
        /* One number after the other, of which one may fill all that is there. */
        uint8_t *start = pages + page, *key = start + before / 2;
        memset(start, before % 2 == 0 ? 0x80 : 0, before / 2);
        for (uint8_t *at = start + 1; at < key; at++)
            *at = at < key - 3 ? 0x80 : at == key - 1 ? 8 : 1;
        size_t size = 4 + put_number(key + 4, 100);
        rd_kafka_message_t m = {.key = key, .key_len = 4, .payload = key + size, .len = 100};
        CHECK(!shardlog_proves_no_headers(&m));
    }
    munmap(pages, 2 * page);
}

int main(int count, char **arguments)
{
    int64_t told[COUNTERS];
    CHECK(count == 3);
    state = strtoull(arguments[1], NULL, 10);
    CHECK(shardlog_bind(NULL) == NULL);
    read_page_start();
    for (long rounds = strtol(arguments[2], NULL, 10); rounds > 0; rounds--)
        one_round();
    shardlog_counters(told);
    CHECK(told[QUEUES_MADE] == told[QUEUES_GONE] && told[MESSAGES_MADE] == told[MESSAGES_GONE]);
    printf("%lld messages, %lld without headers by proof, %lld queues: sound\n",
           (long long)told[MESSAGES_MADE], proved, (long long)told[QUEUES_MADE]);
    CHECK(told[MESSAGES_MADE] < 1000 || 20 * proved > told[MESSAGES_MADE]);
    return 0;
}
