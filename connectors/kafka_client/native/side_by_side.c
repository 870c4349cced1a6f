/* That a message has no headers, proved by the bytes behind its value.
 *
 * To be asked for headers, librdkafka (2.16) makes a buffer to find that there are none, which
 * takes longer than all else that is measured of a small record. Records that it leaves as they
 * were fetched lie side by side:
 *
 *     value  0 headers    length attributes timestamp offset, length of the key  key
 *
 * That they do is nobody's promise, so nothing is taken on trust: every byte up to the next
 * message's key is read, or up to its value if it has no key. The lengths there must be those of
 * the next message, and it must begin where they end. What is not proved is asked for.
 */
#include "fetch.h"

/* So much lies between at most. Two allocations do not lie so close that more than an allocator's
 * own bytes would be read between them, which prove nothing. */
#define BETWEEN_MAX 15

/* Read a record's number; false if it does not end in time. */
static inline bool read_number(const uint8_t **at, const uint8_t *end, int64_t *number)
{
    uint64_t found = 0;
    for (unsigned shift = 0; *at < end && shift < 63; shift += 7) {
        uint8_t byte = *(*at)++;
        found |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *number = (int64_t)(found >> 1) ^ -(int64_t)(found & 1);
            return true;
        }
    }
    return false;
}

/* Tell whether the bytes between a message's value and the next one's key prove that it has no
 * headers. */
bool shardlog_proves_no_headers(const rd_kafka_message_t *m, const rd_kafka_message_t *next)
{
    const bool has_key = next->key != NULL;
    const uint8_t *at = m->payload, *end = has_key ? next->key : next->payload;
    int64_t length, unused, size;
    if (at == NULL || end == NULL)
        return false;
    at += m->len;
    const uintptr_t between = (uintptr_t)end - (uintptr_t)at;
    if (between == 0 || between > BETWEEN_MAX || *at++ != 0 || !read_number(&at, end, &length))
        return false;
    const uint8_t *start = at++; /* of what the length counts; attributes are a byte */
    if (!read_number(&at, end, &unused) || !read_number(&at, end, &unused)
        || !read_number(&at, end, &size) || size != (has_key ? (int64_t)next->key_len : -1))
        return false;
    if (!has_key && (!read_number(&at, end, &size) || size != (int64_t)next->len))
        return false;
    const int64_t least = (end - start) + size + (has_key ? 1 : 0);
    return at == end && length > least;
}
