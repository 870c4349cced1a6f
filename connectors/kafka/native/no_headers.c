/* That a message has no headers, proved by the length of its own record.
 *
 * To be asked for headers, librdkafka (2.16) makes a buffer to find that there are none, which
 * takes longer than all else that is measured of a small record. A record that it leaves as it was
 * fetched is
 *
 *     length  attributes timestamp offset, length of the key  key  length of the value  value
 *     number of headers, headers
 *
 * and the first length counts all behind it: where only one byte is left behind the value, no
 * header can be there. Lengths, attributes and places must be what librdkafka says of key and
 * value, so that nothing is trusted that is nobody's promise, and what is not proved is asked for.
 *
 * The bytes are read from the key backwards, each only when those behind it have said that it is
 * the record's. No byte of another record or buffer is read, whatever the record holds; and records
 * of the formats before, which know no headers, have more than HEAD_MAX bytes of their own there.
 */
#include "fetch.h"

/* A head that is longer is not looked at. */
#define HEAD_MAX 16
/* If librdkafka laid records out otherwise, what lies before a key need not be readable, unless it
 * is of the key's page. No machine has smaller ones. */
#define PAGE 4096

static inline uint64_t zigzag(int64_t number)
{
    return (uint64_t)number << 1 ^ (uint64_t)(number >> 63);
}

static inline size_t size_of(int64_t number)
{
    size_t size = 1;
    for (uint64_t left = zigzag(number); left >= 0x80; left >>= 7)
        size++;
    return size;
}

/* Tell whether the bytes before this place are this number. The last is read first, by which a
 * number of fewer bytes is another. */
static inline bool ends_number(const uint8_t *end, int64_t number)
{
    const size_t size = size_of(number);
    for (size_t at = size; at-- > 0; end--) {
        uint8_t more = at + 1 < size ? 0x80 : 0;
        if (end[-1] != (uint8_t)((zigzag(number) >> 7 * at & 0x7f) | more))
            return false;
    }
    return true;
}

/* Step back over a number, whichever; false if it may begin before `least`. */
static inline bool step_back(const uint8_t **at, const uint8_t *least)
{
    if (*--*at >= 0x80)
        return false;
    while (*at > least && (*at)[-1] >= 0x80)
        --*at;
    return *at > least;
}

/* Tell whether the bytes around a message's key prove that it has no headers. */
bool shardlog_proves_no_headers(const rd_kafka_message_t *m)
{
    const uint8_t *key = m->key, *value = m->payload;
    const int64_t key_len = (int64_t)m->key_len, len = (int64_t)m->len;
    if (key == NULL || value == NULL || (uintptr_t)key % PAGE < HEAD_MAX)
        return false;
    if ((uintptr_t)value - (uintptr_t)key != m->key_len + size_of(len)
        || !ends_number(value, len) || !ends_number(key, key_len))
        return false;
    const uint8_t *least = key - HEAD_MAX, *at = key - size_of(key_len);
    if (!step_back(&at, least) || !step_back(&at, least) || *--at != 0)
        return false;
    const int64_t length = (value - at) + len + 1;
    return (size_t)(at - least) >= size_of(length) && ends_number(at, length);
}
