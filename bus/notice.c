/* SPDX-License-Identifier: Apache-2.0 */
/* Notices are written in place. They are read only after the whole datagram was bounded. */
#include "bus/notice.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "bus/bounds.h"
#include "bus/error.h"

struct notice_header_bytes {
	uint32_t magic;
	uint8_t version;
	uint8_t flags;
	uint16_t count;
	uint64_t bus_id;
	uint64_t send_time_ns;
	uint32_t bytes;
	uint32_t sender;
	uint64_t number;
};
static_assert(sizeof(struct notice_header_bytes) == NOTICE_HEADER, "as it crosses the wire");

struct notice_entry_bytes {
	uint32_t topic_id;
	uint16_t records;
	uint16_t zero;
	uint64_t epoch;
	uint64_t head;
	uint64_t tag;
};
static_assert(sizeof(struct notice_entry_bytes) == NOTICE_ENTRY, "as it crosses the wire");

static size_t record_bytes(uint16_t length)
{
	return RECORD_HEADER_BYTES + ((size_t)length + 7) / 8 * 8;
}

void notice_begin(struct notice_writer *writer, void *bytes, size_t limit, uint64_t bus_id,
		  uint64_t send_time_ns)
{
	const struct notice_header_bytes header = { .magic = NOTICE_MAGIC,
						    .version = NOTICE_VERSION,
						    .bus_id = bus_id,
						    .send_time_ns = send_time_ns };

	*writer = (struct notice_writer){ .bytes = bytes, .limit = limit, .used = sizeof(header) };
	memcpy(writer->bytes, &header, sizeof(header));
}

void notice_number(struct notice_writer *writer, uint32_t sender, uint64_t number)
{
	memcpy(writer->bytes + offsetof(struct notice_header_bytes, sender), &sender,
	       sizeof(sender));
	memcpy(writer->bytes + offsetof(struct notice_header_bytes, number), &number,
	       sizeof(number));
}

int notice_entry(struct notice_writer *writer, uint32_t topic_id, uint64_t epoch, uint64_t head)
{
	const struct notice_entry_bytes entry = { .topic_id = topic_id,
						  .epoch = epoch,
						  .head = head };

	if (writer->used + sizeof(entry) > writer->limit || writer->count == UINT16_MAX)
		return -ENOSPC;
	writer->entry = writer->used;
	memcpy(writer->bytes + writer->used, &entry, sizeof(entry));
	writer->used += sizeof(entry);
	writer->count++;
	return 0;
}

int notice_record(struct notice_writer *writer, const struct record *record)
{
	const size_t bytes = record_bytes(record->length);
	struct notice_entry_bytes entry;

	if (writer->count == 0 || writer->used + bytes > writer->limit)
		return -ENOSPC;
	memcpy(&entry, writer->bytes + writer->entry, sizeof(entry));
	entry.records++;
	memcpy(writer->bytes + writer->entry, &entry, sizeof(entry));
	memset(writer->bytes + writer->used + bytes - 8, 0, 8);
	memcpy(writer->bytes + writer->used, record, RECORD_HEADER_BYTES + record->length);
	writer->used += bytes;
	return 0;
}

size_t notice_finish(struct notice_writer *writer)
{
	const uint32_t bytes = (uint32_t)writer->used;

	if (writer->count == 0)
		return 0;
	memcpy(writer->bytes + offsetof(struct notice_header_bytes, count), &writer->count,
	       sizeof(writer->count));
	memcpy(writer->bytes + offsetof(struct notice_header_bytes, bytes), &bytes, sizeof(bytes));
	return writer->used;
}

/* The length of the record at `at`, bounded by the datagram: 0, or -EPROTO without a message. */
static int record_at(const struct notice_reader *reader, size_t at, uint16_t *length)
{
	const size_t left = reader->length - at;

	if (left < RECORD_HEADER_BYTES)
		return -EPROTO;
	memcpy(length, reader->bytes + at + offsetof(struct record, length), sizeof(*length));
	if (*length > TB_PAYLOAD_MAX || left < record_bytes(*length))
		return -EPROTO;
	return 0;
}

/* Walks every entry and record, so that later reads cannot leave the datagram. */
static int notice_walk(const struct notice_reader *reader)
{
	size_t at = reader->at;
	uint16_t length;

	for (uint16_t i = 0; i < reader->entries_left; i++) {
		struct notice_entry_bytes entry;

		if (reader->length - at < sizeof(entry))
			return error_set(EPROTO, "notice: ends at byte %zu inside entry %u",
					 reader->length, i);
		memcpy(&entry, reader->bytes + at, sizeof(entry));
		if (entry.zero != 0)
			return error_set(
				EPROTO,
				"notice: entry %u has 0x%04x in its reserved field, expected 0", i,
				entry.zero);
		at += sizeof(entry);
		for (uint16_t n = 0; n < entry.records; n++) {
			if (record_at(reader, at, &length) < 0)
				return error_set(EPROTO,
						 "notice: record %u of entry %u at byte %zu goes "
						 "beyond the datagram's %zu bytes",
						 n, i, at, reader->length);
			at += record_bytes(length);
		}
	}
	if (at != reader->length)
		return error_set(EPROTO, "notice: has %zu bytes after its last entry",
				 reader->length - at);
	return 0;
}

int notice_open(struct notice_reader *reader, const void *bytes, size_t length,
		struct notice *notice)
{
	struct notice_header_bytes header;

	if (length < sizeof(header) || length > BOUND_NOTICE_BYTES_MAX)
		return error_set(EPROTO, "notice: found %zu bytes, expected %zu to %d", length,
				 sizeof(header), BOUND_NOTICE_BYTES_MAX);
	memcpy(&header, bytes, sizeof(header));
	if (header.magic != NOTICE_MAGIC || header.version != NOTICE_VERSION)
		return error_set(
			EPROTO, "notice: found magic 0x%08x version %u, expected 0x%08x version %d",
			header.magic, header.version, NOTICE_MAGIC, NOTICE_VERSION);
	if (header.bytes != length || header.flags)
		return error_set(
			EPROTO,
			"notice: header has %u bytes and flags 0x%02x, expected the datagram's "
			"%zu bytes and no flags",
			header.bytes, header.flags, length);
	*reader = (struct notice_reader){
		.bytes = bytes, .length = length, .at = sizeof(header), .entries_left = header.count
	};
	*notice = (struct notice){ .bus_id = header.bus_id,
				   .send_time_ns = header.send_time_ns,
				   .count = header.count,
				   .sender = header.sender,
				   .number = header.number };
	return notice_walk(reader);
}

/* Advances past the entry's next record. Returns where that record is, or NULL. */
static const uint8_t *record_pass(struct notice_reader *reader, uint16_t *length)
{
	const uint8_t *bytes = reader->bytes + reader->at;

	if (reader->records_left == 0 || record_at(reader, reader->at, length) < 0)
		return NULL;
	reader->at += record_bytes(*length);
	reader->records_left--;
	return bytes;
}

int notice_next(struct notice_reader *reader, struct notice_entry *entry)
{
	struct notice_entry_bytes bytes;
	uint16_t length;

	while (record_pass(reader, &length))
		;
	if (reader->entries_left == 0)
		return 0;
	memcpy(&bytes, reader->bytes + reader->at, sizeof(bytes));
	reader->at += sizeof(bytes);
	reader->entries_left--;
	reader->records_left = bytes.records;
	*entry = (struct notice_entry){ .topic_id = bytes.topic_id,
					.records = bytes.records,
					.epoch = bytes.epoch,
					.head = bytes.head,
					.tag = bytes.tag };
	return 1;
}

int notice_next_record(struct notice_reader *reader, struct record *record)
{
	uint16_t length;
	const uint8_t *bytes = record_pass(reader, &length);

	if (!bytes)
		return 0;
	memcpy(record, bytes, RECORD_HEADER_BYTES + length);
	return 1;
}
