/* SPDX-License-Identifier: Apache-2.0 */
/* Notices equal the published bytes, and read back. Truncated, longer or changed datagrams are
 * refused with a message. Nothing outside the datagram is read. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bus/notice.h"
#include "bus/verbs/notice_udp.h"
#include "tests/support/guard.h"
#include "tests/support/random.h"
#include "bus/bounds.h"
#include "tickbus/error.h"

#define EPOCH  UINT64_C(0x1122334455667788)
#define BUS    UINT64_C(0x2122232425262728)
#define SENT   UINT64_C(0x3132333435363738)
#define ROUNDS 100000

/* Two topics: 5 with its head only, 6 with one record; written from the description. */
static const char golden[] =
	"5442554e0200020028272625242322213837363534333231900000006463626178777675"
	"7473727105000000000000008877665544332211e8030000000000000000000000000000"
	"060000000100000089776655443322114d0000000000000000000000000000004d000000"
	"0000000048474645444342410300000005000101585756555453525168656c6c6f000000";

static size_t unhex(const char *text, uint8_t *bytes)
{
	size_t count = 0;
	unsigned int value;

	for (; text[2 * count] && sscanf(text + 2 * count, "%2x", &value) == 1; count++)
		bytes[count] = (uint8_t)value;
	return count;
}

static struct record a_record(void)
{
	struct record record = { .sequence = 77,
				 .time_ns = 0x4142434445464748,
				 .instrument = 3,
				 .length = 5,
				 .kind = 1,
				 .flags = 1,
				 .check = 0x5152535455565758 };

	memset(record.payload, 0xee, sizeof(record.payload)); /* these bytes must not be sent */
	memcpy(record.payload, "hello", 5);
	return record;
}

static size_t write_golden(uint8_t *bytes)
{
	const struct record record = a_record();
	struct notice_writer writer;

	memset(bytes, 0xdd, BOUND_NOTICE_BYTES_MAX);
	notice_begin(&writer, bytes, 1024, BUS, SENT);
	notice_number(&writer, 0x61626364, 0x7172737475767778);
	cr_assert_eq(notice_entry(&writer, 5, EPOCH, 1000), 0);
	cr_assert_eq(notice_entry(&writer, 6, EPOCH + 1, 77), 0);
	cr_assert_eq(notice_record(&writer, &record), 0);
	return notice_finish(&writer);
}

Test(notice, notice_encodes_to_published_bytes)
{
	uint8_t expected[BOUND_NOTICE_BYTES_MAX], bytes[BOUND_NOTICE_BYTES_MAX];
	const size_t length = unhex(golden, expected);

	cr_assert_eq(write_golden(bytes), length);
	cr_assert_arr_eq(bytes, expected, length);
}

Test(notice, notice_reads_back_entries_and_records)
{
	const struct record expected = a_record();
	uint8_t bytes[BOUND_NOTICE_BYTES_MAX];
	const size_t length = unhex(golden, bytes);
	struct notice_reader reader;
	struct notice_entry entry;
	struct record record;
	struct notice notice;

	cr_assert_eq(notice_open(&reader, bytes, length, &notice), 0, "%s", tb_error());
	cr_expect(notice.bus_id == BUS && notice.send_time_ns == SENT && notice.count == 2);
	cr_expect(notice.sender == 0x61626364 && notice.number == 0x7172737475767778);
	cr_assert_eq(notice_next(&reader, &entry), 1);
	cr_expect(entry.topic_id == 5 && entry.epoch == EPOCH && entry.head == 1000 &&
		  entry.records == 0);
	cr_assert_eq(notice_next_record(&reader, &record), 0);
	cr_assert_eq(notice_next(&reader, &entry), 1);
	cr_expect(entry.topic_id == 6 && entry.epoch == EPOCH + 1 && entry.head == 77 &&
		  entry.records == 1);
	cr_assert_eq(notice_next_record(&reader, &record), 1);
	cr_expect_eq(memcmp(&record, &expected, RECORD_HEADER_BYTES + 5), 0);
	cr_assert_eq(notice_next_record(&reader, &record), 0);
	cr_assert_eq(notice_next(&reader, &entry), 0);
	cr_assert_eq(notice_next(&reader, &entry), 0);
}

Test(notice, unread_records_are_skipped)
{
	const struct record record = a_record();
	uint8_t bytes[BOUND_NOTICE_BYTES_MAX];
	struct notice_writer writer;
	struct notice_reader reader;
	struct notice_entry entry;
	struct notice notice;

	notice_begin(&writer, bytes, sizeof(bytes), BUS, SENT);
	for (uint32_t topic = 1; topic <= 3; topic++) {
		cr_assert_eq(notice_entry(&writer, topic, EPOCH, topic), 0);
		for (uint32_t n = 0; n < topic; n++)
			cr_assert_eq(notice_record(&writer, &record), 0);
	}
	cr_assert_eq(notice_open(&reader, bytes, notice_finish(&writer), &notice), 0);
	for (uint32_t topic = 1; topic <= 3; topic++) {
		cr_assert_eq(notice_next(&reader, &entry), 1);
		cr_expect(entry.topic_id == topic && entry.records == topic);
	}
	cr_assert_eq(notice_next(&reader, &entry), 0);
}

Test(notice, notice_without_entries_has_no_bytes)
{
	const struct record record = a_record();
	uint8_t bytes[BOUND_NOTICE_BYTES_MIN];
	struct notice_writer writer;

	notice_begin(&writer, bytes, sizeof(bytes), BUS, SENT);
	cr_expect_eq(notice_record(&writer, &record), -ENOSPC, "there is no entry to put it in");
	cr_expect_eq(notice_finish(&writer), 0);
}

Test(notice, shortest_and_longest_notices_are_read)
{
	static struct record record;
	uint8_t bytes[BOUND_NOTICE_BYTES_MAX];
	struct notice_writer writer;
	struct notice_reader reader;
	struct notice_entry entry;
	struct notice notice;
	const uint32_t stated = NOTICE_HEADER;

	unhex(golden, bytes);
	memset(bytes + 6, 0, 2); /* no entry */
	memcpy(bytes + 24, &stated, sizeof(stated));
	cr_assert_eq(notice_open(&reader, bytes, NOTICE_HEADER, &notice), 0, "%s", tb_error());
	cr_expect_eq(notice_next(&reader, &entry), 0);
	record = a_record();
	record.length = BOUND_NOTICE_BYTES_MAX - NOTICE_HEADER - NOTICE_ENTRY - RECORD_HEADER_BYTES;
	notice_begin(&writer, bytes, sizeof(bytes), BUS, SENT);
	cr_assert_eq(notice_entry(&writer, 5, EPOCH, 1000), 0);
	cr_assert_eq(notice_record(&writer, &record), 0);
	cr_assert_eq(notice_finish(&writer), BOUND_NOTICE_BYTES_MAX);
	cr_assert_eq(notice_open(&reader, bytes, sizeof(bytes), &notice), 0, "%s", tb_error());
	cr_assert_eq(notice_next(&reader, &entry), 1);
	cr_expect_eq(entry.records, 1);
}

/* An entry or record without room is refused whole; the notice stays valid, within its limit. */
Test(notice, writer_never_exceeds_its_limit)
{
	static struct record record;
	struct notice_writer writer;
	struct notice_reader reader;
	struct notice notice;
	struct guard guard;

	record = a_record();
	guard_open(&guard, BOUND_NOTICE_BYTES_MAX);
	for (size_t limit = BOUND_NOTICE_BYTES_MIN; limit <= BOUND_NOTICE_BYTES_MAX; limit++) {
		uint8_t *bytes = guard.base + guard.room - limit;
		unsigned int entries = 0, records = 0;
		size_t used = NOTICE_HEADER;

		record.length = (uint16_t)(limit % 100);
		notice_begin(&writer, bytes, limit, BUS, SENT);
		while (notice_entry(&writer, entries + 1, EPOCH, 9) == 0) {
			entries++;
			used += NOTICE_ENTRY;
			while (records < 2 * entries && notice_record(&writer, &record) == 0) {
				records++;
				used += RECORD_HEADER_BYTES + (record.length + 7u) / 8 * 8;
			}
		}
		cr_assert_leq(used, limit);
		cr_assert_gt(used + NOTICE_ENTRY, limit, "limit %zu: room for an entry", limit);
		cr_assert_eq(notice_finish(&writer), used);
		cr_assert_eq(notice_open(&reader, bytes, used, &notice), 0, "%s", tb_error());
		cr_assert_eq(notice.count, entries);
	}
	guard_close(&guard);
}

Test(notice, every_truncation_or_addition_is_refused)
{
	uint8_t bytes[BOUND_NOTICE_BYTES_MAX + 1] = { 0 };
	const size_t length = unhex(golden, bytes);
	struct notice_reader reader;
	struct notice notice;
	struct guard guard;
	uint32_t stated;

	guard_open(&guard, sizeof(bytes));
	for (size_t cut = 0; cut < sizeof(bytes); cut++) {
		if (cut == length)
			continue;
		/* As truncated in transit, and as a malicious sender would send it. */
		cr_assert_eq(notice_open(&reader, guard_copy(&guard, bytes, cut), cut, &notice),
			     -EPROTO, "%zu bytes", cut);
		if (cut < NOTICE_HEADER)
			continue;
		stated = (uint32_t)cut;
		memcpy(guard_copy(&guard, bytes, cut) + 24, &stated, sizeof(stated));
		cr_assert_eq(notice_open(&reader, guard.base + guard.room - cut, cut, &notice),
			     -EPROTO, "%zu bytes, stated so", cut);
	}
	guard_close(&guard);
}

/* One wrong field: its offset, its bytes, the datagram's length if changed, and the error. */
static const struct {
	size_t at;
	const char *bytes;
	size_t length;
	const char *error;
} wrong[] = {
	{ 0, "", 39, "found 39 bytes, expected 40 to 4096" },
	{ 0, "", 4097, "found 4097 bytes, expected 40 to 4096" },
	{ 0, "55", 0, "found magic 0x4e554255 version 2, expected 0x4e554254 version 2" },
	{ 4, "01", 0, "found magic 0x4e554254 version 1, expected 0x4e554254 version 2" },
	{ 5, "80", 0,
	  "header has 144 bytes and flags 0x80, expected the datagram's 144 bytes and no flags" },
	{ 24, "91", 0,
	  "header has 145 bytes and flags 0x00, expected the datagram's 144 bytes and no flags" },
	{ 6, "01", 0, "has 72 bytes after its last entry" },
	{ 6, "00", 0, "has 104 bytes after its last entry" },
	{ 6, "03", 0, "ends at byte 144 inside entry 2" },
	{ 6, "ffff", 0, "ends at byte 144 inside entry 2" },
	{ 46, "01", 0, "entry 0 has 0x0001 in its reserved field, expected 0" },
	{ 79, "80", 0, "entry 1 has 0x8000 in its reserved field, expected 0" },
	{ 76, "02", 0, "record 1 of entry 1 at byte 144 goes beyond the datagram's 144 bytes" },
	{ 76, "ffff", 0, "record 1 of entry 1 at byte 144 goes beyond the datagram's 144 bytes" },
	{ 76, "00", 0, "has 40 bytes after its last entry" },
	{ 44, "03", 0, "record 2 of entry 0 at byte 144 goes beyond the datagram's 144 bytes" },
	{ 124, "09", 0, "record 0 of entry 1 at byte 104 goes beyond the datagram's 144 bytes" },
	{ 124, "ffff", 0, "record 0 of entry 1 at byte 104 goes beyond the datagram's 144 bytes" },
	{ 124, "00", 0, "has 8 bytes after its last entry" },
};

Test(notice, every_wrong_field_is_refused_with_message)
{
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		uint8_t bytes[BOUND_NOTICE_BYTES_MAX + 1] = { 0 };
		const size_t length = unhex(golden, bytes);
		struct notice_reader reader;
		struct notice notice;

		unhex(wrong[i].bytes, bytes + wrong[i].at);
		cr_assert_eq(notice_open(&reader, bytes, wrong[i].length ? wrong[i].length : length,
					 &notice),
			     -EPROTO, "%zu: %s", i, wrong[i].error);
		cr_assert_eq(strncmp(tb_error(), "notice: ", 8), 0, "%s", tb_error());
		cr_expect_str_eq(tb_error() + 8, wrong[i].error);
	}
}

/* Reads everything: returns the bytes of entries and records that the datagram must have. */
static size_t read_all(struct notice_reader *reader, const struct notice *notice)
{
	size_t bytes = NOTICE_HEADER, entries = 0;
	struct notice_entry entry;
	struct record record;

	while (notice_next(reader, &entry) == 1) {
		unsigned int records = 0;

		entries++;
		bytes += NOTICE_ENTRY;
		while (notice_next_record(reader, &record) == 1) {
			cr_assert_leq(record.length, TB_PAYLOAD_MAX);
			bytes += RECORD_HEADER_BYTES + (record.length + 7u) / 8 * 8;
			records++;
		}
		cr_assert_eq(records, entry.records);
	}
	cr_assert_eq(entries, notice->count);
	return bytes;
}

Test(notice, random_bytes_are_refused_or_read_to_the_exact_end)
{
	uint8_t bytes[BOUND_NOTICE_BYTES_MAX];
	uint64_t state = random_seed();
	unsigned int taken = 0;
	struct guard guard;

	guard_open(&guard, sizeof(bytes));
	for (unsigned int round = 0; round < ROUNDS; round++) {
		struct notice_reader reader;
		struct notice notice;
		size_t length = unhex(golden, bytes);
		uint32_t stated;

		for (size_t changes = random_below(&state, 4); changes > 0; changes--)
			bytes[random_below(&state, length)] = (uint8_t)random_draw(&state);
		if (random_below(&state, 4) == 0) {
			const size_t more = random_below(&state, sizeof(bytes) - length);

			random_fill(&state, bytes + length, more);
			length += more;
		}
		stated = (uint32_t)length; /* otherwise nearly all would fail there */
		if (random_below(&state, 8) != 0)
			memcpy(bytes + 24, &stated, sizeof(stated));
		if (notice_open(&reader, guard_copy(&guard, bytes, length), length, &notice) < 0)
			continue;
		taken++;
		cr_assert_eq(read_all(&reader, &notice), length, "round %u", round);
	}
	cr_assert(taken > ROUNDS / 20 && taken < ROUNDS / 20 * 19, "%u were taken", taken);
	guard_close(&guard);
}

/* -- groups -------------------------------------------------------------------------------------
 */

/* Finds an IPv6 address of an interface with multicast. Returns its index, or 0. */
static unsigned int interface_find(struct sockaddr_storage *local)
{
	struct ifaddrs *all, *at;
	unsigned int index = 0;

	cr_assert_eq(getifaddrs(&all), 0);
	for (at = all; at && !index; at = at->ifa_next)
		if (at->ifa_addr && at->ifa_addr->sa_family == AF_INET6 &&
		    (at->ifa_flags & IFF_MULTICAST) && (at->ifa_flags & IFF_RUNNING)) {
			memcpy(local, at->ifa_addr, sizeof(struct sockaddr_in6));
			index = if_nametoindex(at->ifa_name);
		}
	freeifaddrs(all);
	return index;
}

Test(notice, ipv6_group_of_any_scope_is_received)
{
	static const char *const groups[] = { "ff02::4d:7", "ff15::4d:7" };
	struct sockaddr_storage local = { 0 };
	const unsigned int interface = interface_find(&local);

	if (interface == 0)
		cr_skip("no interface has an IPv6 address and multicast");
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		struct sockaddr_in6 group = { .sin6_family = AF_INET6, .sin6_port = htons(7486) };
		struct sockaddr_storage address = { 0 };
		struct pollfd ready = { .events = POLLIN };
		int sender = socket(AF_INET6, SOCK_DGRAM, 0);

		cr_assert_eq(inet_pton(AF_INET6, groups[i], &group.sin6_addr), 1);
		memcpy(&address, &group, sizeof(group));
		ready.fd = notice_udp_receiver(&local, &address, 65536);
		cr_assert_geq(ready.fd, 0, "%s: %s", groups[i], tb_error());
		group.sin6_scope_id = interface;
		cr_assert_eq(setsockopt(sender, IPPROTO_IPV6, IPV6_MULTICAST_IF, &interface,
					sizeof(interface)),
			     0);
		cr_assert_eq(sendto(sender, "news", 4, 0, (struct sockaddr *)&group, sizeof(group)),
			     4, "%s: %s", groups[i], strerror(errno));
		cr_assert_eq(poll(&ready, 1, 20000), 1, "%s", groups[i]);
		close(sender);
		close(ready.fd);
	}
}
