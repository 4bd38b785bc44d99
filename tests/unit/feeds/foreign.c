/* SPDX-License-Identifier: Apache-2.0 */
/* A file of another format is named by its first bytes. A BinaryFILE never is. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "publisher/feeds/framings/foreign.h"
#include "publisher/feeds/itch/itch.h"
#include "publisher/feeds/framings/source_file.h"
#include "tickbus/error.h"

#define BYTES 4096

static uint8_t head[BYTES];
static size_t size;

static void put(const void *bytes, size_t length)
{
	memcpy(head + size, bytes, length);
	size += length;
}

static void put_number(size_t number, unsigned int bytes)
{
	while (bytes--)
		head[size++] = (uint8_t)(number >> 8 * bytes);
}

/* The i-th message of a day. */
static size_t message(unsigned int i, uint8_t bytes[ITCH_LENGTH_MAX])
{
	struct itch_message made;

	memset(&made, 'B', sizeof(made));
	made.type = itch_types[i % ITCH_TYPE_COUNT].code;
	made.time_ns = i;
	return (size_t)itch_encode(&made, bytes);
}

static void put_itch41(unsigned int i)
{
	uint8_t bytes[ITCH_LENGTH_MAX];
	const size_t length = message(i, bytes);

	put_number(bytes[0] == 'R' ? 20 : length - 6, 2);
	put(bytes, 1);
	put(bytes + 7, bytes[0] == 'R' ? 19 : length - 7);
}

/* Each writes message i of its framing. */
static void put_own(unsigned int i)
{
	uint8_t bytes[ITCH_LENGTH_MAX];
	const size_t length = message(i, bytes);

	put_number(length, 2);
	put(bytes, length);
}

static void put_little(unsigned int i)
{
	uint8_t bytes[ITCH_LENGTH_MAX];
	const size_t length = message(i, bytes);

	put_number(length << 8, 2);
	put(bytes, length);
}

static void put_zero(unsigned int i)
{
	uint8_t bytes[ITCH_LENGTH_MAX];
	const size_t length = message(i, bytes);

	put_number(0, 2);
	put(bytes, length);
}

static void put_missing(unsigned int i)
{
	uint8_t bytes[ITCH_LENGTH_MAX];

	put(bytes, message(i, bytes));
}

static void put_soup(unsigned int i)
{
	uint8_t bytes[ITCH_LENGTH_MAX];
	const size_t length = message(i, bytes);

	if (i % 3 == 1) {
		put_number(1, 2);
		put("H", 1);
	}
	put_number(length + 1, 2);
	put("S", 1);
	put(bytes, length);
}

/* The packets have 0, 1 and 2 messages in turn. */
static void put_mold(unsigned int i)
{
	put("SESSION1  ", 10);
	put_number(i + 1, 8);
	put_number(i % 3, 2);
	for (unsigned int m = 0; m < i % 3; m++)
		put_own(i + m);
}

static void put_mold_packet(unsigned int i)
{
	const size_t at = size;
	size_t end;

	put_number(0, 2);
	put_mold(i);
	end = size;
	size = at;
	put_number(end - at - 2, 2);
	size = end;
}

static const struct {
	void (*put)(unsigned int i);
	const char *what; /* NULL: it is what a feed reads */
} framings[] = {
	{ put_own, NULL },
	{ put_itch41, "ITCH 4.1" },
	{ put_little, "ITCH 5.0 with little-endian lengths" },
	{ put_zero, "ITCH 5.0 with lengths that are all 0" },
	{ put_missing, "ITCH 5.0 without lengths" },
	{ put_soup, "SoupBinTCP packets" },
	{ put_mold, "MoldUDP64 packets" },
	{ put_mold_packet, "MoldUDP64 packets" },
};

static void expect(const char *what, const char *where)
{
	char expected[128];

	if (!what) {
		cr_assert_eq(foreign_check(head, size), 0, "%s: %s", where, tb_error());
		return;
	}
	snprintf(expected, sizeof(expected),
		 "looks like %s, expected a BinaryFILE of ITCH 5.0, plain", what);
	cr_assert_eq(foreign_check(head, size), -EBADMSG, "%s: not seen: %s", where, what);
	cr_assert(strncmp(tb_error(), expected, strlen(expected)) == 0, "%s: %s", where,
		  tb_error());
	cr_assert(strstr(tb_error(), "zstd; "), "says what to do: %s", tb_error());
}

/* Whichever message a file begins with, and however long it is. */
Test(foreign, each_framing_is_named)
{
	for (size_t f = 0; f < sizeof(framings) / sizeof(framings[0]); f++)
		for (unsigned int first = 0; first < ITCH_TYPE_COUNT; first++)
			for (unsigned int count = 2; count < 8; count++) {
				char where[64];

				size = 0;
				for (unsigned int i = 0; i < count; i++)
					framings[f].put(first + i);
				snprintf(where, sizeof(where), "framing %zu, first %u of %u", f,
					 first, count);
				expect(framings[f].what, where);
			}
}

static const struct {
	const char *bytes;
	size_t length;
	const char *what;
} beginnings[] = {
#define CASE(bytes, what)                                                                          \
	{                                                                                          \
		bytes, sizeof(bytes) - 1, what                                                     \
	}
	CASE("\xd4\xc3\xb2\xa1\2\0\4\0", "a capture (pcap, microseconds)"),
	CASE("\xa1\xb2\xc3\xd4\0\2\0\4", "a capture (pcap, microseconds, big-endian)"),
	CASE("\x4d\x3c\xb2\xa1\2\0\4\0", "a capture (pcap, nanoseconds)"),
	CASE("\xa1\xb2\x3c\x4d\0\2\0\4", "a capture (pcap, nanoseconds, big-endian)"),
	CASE("\n\r\r\n\x1c\0\0\0M<+\x1a", "a capture (pcapng)"),
	CASE("\xfd"
	     "7zXZ\0\0\4",
	     "xz data"),
	CASE("BZh91AY&SY....", "bzip2 data"),
	CASE("BZh9\x17\x72\x45\x38\x50\x90\0\0\0\0", "bzip2 data"),
	CASE("\x1f\x8b\b\0", "gzip data inside compressed data"),
	CASE("\x28\xb5\x2f\xfd", "zstd data inside compressed data"),
	CASE("PK\3\4\x14\0", "a zip archive"),
	CASE("7z\xbc\xaf\x27\x1c\0\4", "a 7z archive"),
	CASE("\4\"M\x18\x64", "lz4 data"),
	CASE("DBN\1\xc6\0\0\0", "DBN (Databento's encoding)"),
	CASE("\177ELF\2\1\1", "a program (ELF)"),
	CASE("\xff\xfet\0i\0m\0e\0,\0", "UTF-16 text"),
	CASE("\xfe\xff\0t\0i\0m\0e\0,", "UTF-16 text"),
	CASE("SQLite format 3\0\x10\0\1\1", "an SQLite database"),
	CASE("PAR1\x15\4\x15\x10", "a Parquet file"),
	CASE("PARE\x15\4\x15\x10", "a Parquet file"),
	CASE("ARROW1\0\0\xff\xff\xff\xff", "an Arrow file"),
	CASE("version https://git-lfs.github.com/spec/v1\noid sha256:", "a git-lfs pointer"),
	CASE("<!DOCTYPE html>\n<html>", "HTML or XML"),
	CASE("\r\n  <HTML><head>", "HTML or XML"),
	CASE("\xef\xbb\xbf<?xml version=\"1.0\"?>", "HTML or XML"),
	CASE("{\"symbol\": \"AAPL\", \"price\": 1}", "JSON"),
	CASE(" [\n1,2]", "JSON"),
	CASE("ts_event,price,size\n1,2,3\n", "CSV"),
	CASE("\xef\xbb\xbftime;price\n1;2\n", "CSV"),
	CASE("time\tprice\n", "CSV"),
	CASE("404 not found\n", "text"),
	CASE("\0\0\0\0\0\0\0\0", "zeros without a message"),
	CASE("\0\0", NULL), /* the end of a session; reading it finds no message */
	CASE("", NULL),
#undef CASE
};

Test(foreign, each_container_and_text_is_named)
{
	for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++) {
		char where[32];

		size = 0;
		put(beginnings[i].bytes, beginnings[i].length);
		snprintf(where, sizeof(where), "case %zu", i);
		expect(beginnings[i].what, where);
	}
	size = 0;
	memset(head, 0, 512);
	put("day.bin", 7);
	memcpy(head + 257, "ustar", 6);
	size = 512;
	expect("a tar archive", "tar");
}

/* Messages of unknown types, damage, or a part of a message: those are judged when they are read.
 */
Test(foreign, beginning_that_shows_nothing_is_read)
{
	uint8_t bytes[ITCH_LENGTH_MAX];

	size = 0;
	put_number(40, 2);
	memset(head + size, '~', 40);
	size += 40;
	expect(NULL, "an unknown type");
	put_own(0);
	expect(NULL, "a known type behind it");
	for (size_t i = 0; i < ITCH_TYPE_COUNT; i++) {
		const size_t length = message((unsigned int)i, bytes);

		size = 0;
		put_number(length, 2);
		for (size_t part = 0; part < length; part++) {
			expect(NULL, "a part");
			put(bytes + part, 1);
		}
	}
}

static void expect_long(void)
{
	cr_assert_eq(foreign_check(head, size), -EBADMSG);
	cr_assert(strstr(tb_error(), "as the length of the first message, expected at most 255 "),
		  "%s", tb_error());
	cr_assert(strstr(tb_error(), "another format?"), "%s", tb_error());
}

/* Whether the message is whole, cut, or of a known type. Behind it a message may have any length.
 */
Test(foreign, first_message_above_255_bytes_is_refused)
{
	static const size_t lengths[] = { 50, 255, 256, 3000, 65280 };
	static const char types[] = { '~', 'A', 'S', 0 };

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (size_t t = 0; t < sizeof(types); t++) {
			size = 0;
			put_number(lengths[i], 2);
			memset(head + size, types[t], 300);
			size += t % 2 ? 300 : 2;
			if (lengths[i] <= 255)
				expect(NULL, "a short first message");
			else
				expect_long();
		}
	size = 0;
	put_own(0);
	put_number(65535, 2);
	put("~", 1);
	expect(NULL, "a long second message");
}

/* Two bytes in front of a valid message may have come there by chance. */
Test(foreign, single_frame_before_other_bytes_shows_nothing)
{
	for (size_t f = 1; f < sizeof(framings) / sizeof(framings[0]); f++) {
		char where[32];

		size = 0;
		framings[f].put(2);
		memset(head + size, 0xee, 300);
		size += 300;
		snprintf(where, sizeof(where), "framing %zu", f);
		if (foreign_check(head, size) < 0)
			cr_assert(strstr(tb_error(), "length of the first"), "%s: %s", where,
				  tb_error());
	}
}

/* No head is too short to be looked at: the memory behind each is not touched (AddressSanitizer).
 */
Test(foreign, every_part_of_a_head_is_looked_at_in_bounds)
{
	for (size_t f = 0; f < sizeof(framings) / sizeof(framings[0]); f++) {
		size = 0;
		for (unsigned int i = 0; i < 3; i++)
			framings[f].put(i);
		for (size_t part = 1; part <= size; part++) {
			uint8_t *copy = malloc(part);
			int result;

			memcpy(copy, head, part);
			result = foreign_check(copy, part);
			cr_assert(result == 0 || result == -EBADMSG);
			cr_assert(framings[f].what || result == 0);
			free(copy);
		}
	}
}

Test(foreign, real_captures_and_files_are_named)
{
	static const struct {
		const char *name, *what;
	} files[] = {
		{ "iex/TOPS16.pcap.gz", "a capture (pcap, microseconds)" },
		{ "packets/nasdaq/SystemEvent.pcap", "a capture (pcap, nanoseconds)" },
		{ "dbn/test_data.mbo.v1.dbn.zst", "DBN" },
		{ "dbn/test_data.trades.v3.dbn.zst", "DBN" },
		{ "lobster/AAPL_2012-06-21_first999_message_10.csv.gz", "CSV" },
		{ "itch/itch50_golden_types_20230822.bin", NULL },
	};
	const char *data = getenv("TICKBUS_TEST_DATA");

	if (!data)
		cr_skip("TICKBUS_TEST_DATA is not set");
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char name[4096];
		struct source *source;
		int result;

		snprintf(name, sizeof(name), "%s/%s", data, files[i].name);
		result = source_file_open(&source, name);
		if (result == -ENOENT)
			continue;
		cr_assert_eq(result, files[i].what ? -EBADMSG : 0, "%s: %s", name, tb_error());
		cr_assert(!files[i].what || strstr(tb_error(), files[i].what), "%s", tb_error());
		source_close(source);
	}
}
