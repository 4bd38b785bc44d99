/* SPDX-License-Identifier: Apache-2.0 */
/* The synthetic exchange from its callers' side: determinism, limits, files, settings.
 * tests/oracle/synthetic_properties.py judges whether the market is plausible. */
#include "bus/hash.h"
#include "publisher/feeds/itch/itch.h"
#include "publisher/feeds/synthetic/synthetic.h"
#include "publisher/feeds/synthetic/synthetic_source.h"
#include "publisher/feeds/synthetic/synthetic_source.h"
#include "tickbus/error.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

struct stream {
	uint8_t *bytes; /* framed as in a file */
	size_t length;
	uint64_t messages;
};

static struct stream stream_of(const struct synthetic_settings *settings)
{
	struct stream stream = { 0 };
	struct synthetic *synthetic;
	const uint8_t *message;
	size_t length;

	cr_assert_eq(synthetic_open(&synthetic, settings), 0, "%s", tb_error());
	stream.bytes = malloc((settings->messages + 1) * (2 + ITCH_LENGTH_MAX));
	cr_assert_not_null(stream.bytes);
	while (synthetic_next(synthetic, &message, &length) == 1) {
		cr_assert_lt(stream.messages++, settings->messages);
		stream.bytes[stream.length] = 0;
		stream.bytes[stream.length + 1] = (uint8_t)length;
		memcpy(stream.bytes + stream.length + 2, message, length);
		stream.length += 2 + length;
	}
	cr_assert_eq(synthetic_next(synthetic, &message, &length), 0, "the end does not stay");
	synthetic_close(synthetic);
	return stream;
}

static bool equal(struct stream one, struct stream other)
{
	return one.length == other.length && !memcmp(one.bytes, other.bytes, one.length);
}

Test(synthetic, equal_seeds_give_equal_bytes)
{
	struct synthetic_settings settings = { .seed = 42, .messages = 20000 };
	struct stream one = stream_of(&settings), again = stream_of(&settings), other;

	settings.seed = 43;
	other = stream_of(&settings);
	cr_assert(equal(one, again));
	cr_assert_not(equal(one, other));
	free(one.bytes);
	free(again.bytes);
	free(other.bytes);
}

/* Change this only if the stream is meant to change: files of users change too. */
Test(synthetic, stream_equals_earlier_releases)
{
	struct synthetic_settings settings = { .seed = 1, .messages = 10000 };
	struct stream stream = stream_of(&settings);

	cr_expect_eq(XXH3_64bits(stream.bytes, stream.length), UINT64_C(0x98977c79aed9962f), "%llx",
		     (unsigned long long)XXH3_64bits(stream.bytes, stream.length));
	free(stream.bytes);
}

static void wipe_times(struct stream stream)
{
	for (size_t at = 0; at < stream.length; at += 2u + stream.bytes[at + 1])
		memset(stream.bytes + at + 2 + 5, 0, 6);
}

Test(synthetic, pace_changes_only_times)
{
	struct synthetic_settings settings = { .seed = 5, .messages = 20000, .rate = 1000 };
	struct stream slow = stream_of(&settings), fast;

	settings.rate = 50000;
	settings.burst = 70;
	fast = stream_of(&settings);
	cr_assert_not(equal(slow, fast));
	wipe_times(slow);
	wipe_times(fast);
	cr_assert(equal(slow, fast));
	free(slow.bytes);
	free(fast.bytes);
}

Test(synthetic, smallest_days_have_every_type_and_exact_size)
{
	for (uint64_t seed = 0; seed < 300; seed++) {
		struct synthetic_settings settings = { .seed = seed };
		unsigned counts[ITCH_TYPE_COUNT] = { 0 };
		struct stream stream;

		settings.symbols = (uint32_t)(seed % 30 + 1);
		settings.messages = 512 + 8 * settings.symbols;
		stream = stream_of(&settings);
		cr_assert_eq(stream.messages, settings.messages, "seed %lu: %lu messages", seed,
			     stream.messages);
		for (size_t at = 0; at < stream.length; at += 2u + stream.bytes[at + 1]) {
			struct itch_message message;

			cr_assert_eq(
				itch_decode(stream.bytes + at + 2, stream.bytes[at + 1], &message),
				0, "seed %lu: %s", seed, tb_error());
			counts[itch_index(message.type)]++;
		}
		for (int i = 0; i < ITCH_TYPE_COUNT; i++)
			cr_expect(counts[i], "seed %lu: no %c", seed, itch_types[i].code);
		free(stream.bytes);
	}
}

/* Without a limit: the books are empty when the day ends, and the clock begins again. */
Test(synthetic, unlimited_stream_continues_with_another_day)
{
	struct synthetic_settings settings = { .seed = 3, .rate = 10, .symbols = 10 };
	struct synthetic *synthetic;
	uint64_t ends[2] = { 0 }, begins[2] = { 0 }, last_reference = 0;
	unsigned days = 0;
	const uint8_t *bytes;
	size_t length;

	cr_assert_eq(synthetic_open(&synthetic, &settings), 0);
	while (days < 2) {
		struct itch_message message;

		cr_assert_eq(synthetic_next(synthetic, &bytes, &length), 1);
		cr_assert_eq(itch_decode(bytes, length, &message), 0, "%s", tb_error());
		if (message.type == 'A') {
			cr_assert_gt(message.add.reference, last_reference);
			last_reference = message.add.reference;
		}
		if (message.type == 'S' && message.event.event == 'O')
			begins[days] = message.time_ns;
		if (message.type == 'S' && message.event.event == 'C')
			ends[days++] = message.time_ns;
	}
	for (unsigned day = 0; day < 2; day++) {
		cr_expect_lt(begins[day], UINT64_C(34200000000000));
		cr_expect_gt(ends[day], UINT64_C(57600000000000));
		cr_expect_lt(ends[day], UINT64_C(58000000000000));
	}
	synthetic_close(synthetic);
}

Test(synthetic, source_gives_messages_with_file_offsets)
{
	struct synthetic_settings settings = { .seed = 9, .messages = 3000 };
	struct stream stream = stream_of(&settings);
	struct source_message message;
	struct source *source;
	size_t at = 0;

	cr_assert_eq(synthetic_source_open(&source, &settings), 0);
	cr_expect_str_eq(source->name, "synthetic exchange, seed 9");
	while (source_next(source, &message) == 1) {
		cr_assert_eq(message.offset, at);
		cr_assert_arr_eq(message.bytes, stream.bytes + at + 2, message.length);
		at += 2 + message.length;
	}
	cr_assert_eq(at, stream.length);
	source_close(source);
	settings.burst = 1;
	cr_assert_eq(synthetic_source_open(&source, &settings), -EINVAL);
	cr_assert_null(source);
	free(stream.bytes);
}

static char folder[] = "/tmp/tickbus-synthetic-XXXXXX";
static char path[sizeof(folder) + 1 + NAME_MAX];

static const char *in_folder(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void make_folder(void)
{
	cr_assert_not_null(mkdtemp(folder));
}

static unsigned remove_entries(void)
{
	DIR *entries = opendir(folder);
	unsigned count = 0;

	if (!entries)
		return UINT_MAX;
	for (struct dirent *entry; (entry = readdir(entries));)
		if (entry->d_name[0] != '.')
			count += unlink(in_folder(entry->d_name)) == 0;
	closedir(entries);
	return count;
}

static void remove_folder(void)
{
	remove_entries();
	rmdir(folder);
}

TestSuite(synthetic_file, .init = make_folder, .fini = remove_folder);

static struct stream read_file(const char *name)
{
	struct stream stream = { 0 };
	struct stat status;
	int fd = open(in_folder(name), O_RDONLY);

	cr_assert_geq(fd, 0, "%s", path);
	cr_assert_eq(fstat(fd, &status), 0);
	stream.length = (size_t)status.st_size;
	stream.bytes = malloc(stream.length + 1);
	cr_assert_eq(read(fd, stream.bytes, stream.length + 1), status.st_size);
	close(fd);
	return stream;
}

Test(synthetic_file, plain_and_zstd_files_hold_the_stream)
{
	struct synthetic_settings settings = { .seed = 11, .messages = 50000 };
	struct stream stream = stream_of(&settings), plain, packed, again, unpacked;

	cr_assert_eq(synthetic_write(&settings, in_folder("day.bin")), 0, "%s", tb_error());
	cr_assert_eq(synthetic_write(&settings, in_folder("day.zst")), 0, "%s", tb_error());
	cr_assert_eq(synthetic_write(&settings, in_folder("again.zst")), 0, "%s", tb_error());
	plain = read_file("day.bin");
	packed = read_file("day.zst");
	again = read_file("again.zst");
	cr_assert(equal(plain, stream));
	cr_assert(equal(packed, again), "compression differs from run to run");
	cr_assert_lt(packed.length, plain.length);
	unpacked.bytes = malloc(plain.length);
	unpacked.length = 0;
	ZSTD_DStream *zstd = ZSTD_createDStream();
	ZSTD_inBuffer in = { packed.bytes, packed.length, 0 };
	ZSTD_outBuffer out = { unpacked.bytes, plain.length, 0 };
	while (in.pos < in.size && out.pos < out.size)
		cr_assert_not(ZSTD_isError(ZSTD_decompressStream(zstd, &out, &in)));
	ZSTD_freeDStream(zstd);
	unpacked.length = out.pos;
	cr_assert(equal(unpacked, stream));
	cr_assert_eq(remove_entries(), 3, "something was left beside the files");
	free(stream.bytes);
	free(plain.bytes);
	free(packed.bytes);
	free(again.bytes);
	free(unpacked.bytes);
}

/* A file size limit fails a write in the middle, like a full disk. */
static void bound_files(rlim_t bytes)
{
	struct rlimit limit = { bytes, bytes };

	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

Test(synthetic_file, failed_write_leaves_no_file)
{
	struct synthetic_settings settings = { .seed = 1, .messages = 100000 };

	bound_files(600000);
	cr_assert_eq(synthetic_write(&settings, in_folder("day.bin")), -EFBIG);
	cr_assert_not_null(strstr(tb_error(), "/day.bin: cannot write: "), "%s", tb_error());
	cr_assert_eq(synthetic_write(&settings, in_folder("day.zst")), -EFBIG);
	cr_assert_eq(remove_entries(), 0);
}

Test(synthetic_file, failed_write_keeps_the_earlier_file)
{
	struct synthetic_settings settings = { .seed = 1, .messages = 1000 };
	struct stream stream = stream_of(&settings), kept;

	cr_assert_eq(synthetic_write(&settings, in_folder("day.bin")), 0);
	bound_files(600000);
	settings.messages = 100000;
	cr_assert_eq(synthetic_write(&settings, in_folder("day.bin")), -EFBIG);
	kept = read_file("day.bin");
	cr_assert(equal(kept, stream));
	cr_assert_eq(remove_entries(), 1);
	free(stream.bytes);
	free(kept.bytes);
}

Test(synthetic_file, full_device_is_reported_and_kept)
{
	struct synthetic_settings settings = { .seed = 1, .messages = 100000 };

	if (access("/dev/full", W_OK) < 0)
		cr_skip_test("no /dev/full here");
	cr_assert_eq(synthetic_write(&settings, "/dev/full"), -ENOSPC);
	cr_assert_not_null(strstr(tb_error(), "/dev/full: cannot write: "), "%s", tb_error());
	cr_assert_eq(access("/dev/full", W_OK), 0);
}

Test(synthetic_file, missing_folder_or_limit_is_reported)
{
	struct synthetic_settings settings = { .seed = 1, .messages = 1000 };

	cr_assert_eq(synthetic_write(&settings, in_folder("none/day.bin")), -ENOENT);
	cr_assert_not_null(strstr(tb_error(), "/none/day.bin: cannot create: "), "%s", tb_error());
	cr_assert_eq(synthetic_write(&settings, in_folder("day.gz")), -EINVAL);
	cr_assert_not_null(strstr(tb_error(), "found a name with .gz"), "%s", tb_error());
	settings.messages = 0;
	cr_assert_eq(synthetic_write(&settings, in_folder("day.bin")), -EINVAL);
	cr_assert_not_null(strstr(tb_error(), "expected a limit"), "%s", tb_error());
	cr_assert_eq(remove_entries(), 0);
}

static const struct {
	struct synthetic_settings settings;
	const char *message; /* NULL: no error */
} checked[] = {
	{ { .seed = 0 }, NULL },
	{ { .messages = 520 }, NULL },
	{ { .messages = 519 }, "messages 519, expected at least 520 for a day of 1 symbol" },
	{ { .messages = 1 }, "messages 1, expected at least 520" },
	{ { .messages = 64511, .symbols = 8000 }, "messages 64511, expected at least 64512" },
	{ { .messages = 64512, .symbols = 8000 }, NULL },
	{ { .messages = 1000, .seconds = 1 }, "both messages 1000 and seconds 1" },
	{ { .messages = 23401000, .rate = 1000 }, "last 23401 seconds, expected at most 23400" },
	{ { .messages = 23400000, .rate = 1000 }, NULL },
	{ { .messages = UINT64_MAX, .rate = 10000000 }, "expected at most 23400, a trading day" },
	{ { .seconds = 23400 }, NULL },
	{ { .seconds = 23401 }, "seconds 23401, expected at most 23400" },
	{ { .seconds = 2, .rate = 255 }, "hold 510 messages, expected at least 512" },
	{ { .seconds = 2, .rate = 256 }, NULL },
	{ { .rate = 10000000 }, NULL },
	{ { .rate = 10000001 }, "rate 10000001, expected at most 10000000" },
	{ { .symbols = 65535 }, NULL },
	{ { .symbols = 65536 }, "symbols 65536, expected at most 65535" },
	{ { .burst = 10 }, NULL },
	{ { .burst = 9 }, "burst 9, expected 10 to 100" },
	{ { .burst = 101 }, "burst 101, expected 10 to 100" },
};

Test(synthetic, impossible_settings_are_refused_with_message)
{
	for (size_t i = 0; i < sizeof(checked) / sizeof(checked[0]); i++) {
		int result = synthetic_check(&checked[i].settings);
		const char *message = checked[i].message;

		cr_expect_eq(result, message ? -EINVAL : 0, "row %zu: %d, %s", i, result,
			     tb_error());
		if (message && result < 0)
			cr_expect_not_null(strstr(tb_error(), message), "row %zu: %s", i,
					   tb_error());
	}
}

Test(synthetic, defaults_follow_the_number_of_messages)
{
	static const struct {
		uint64_t messages, rate;
		uint32_t symbols;
	} rows[] = {
		{ 0, 100000, 8000 },      { 520, 520, 1 },          { 2000, 2000, 23 },
		{ 100000, 100000, 1554 }, { 512512, 100000, 8000 }, { 10000000, 100000, 8000 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct synthetic_settings settings = { .messages = rows[i].messages }, resolved;

		cr_assert_eq(synthetic_resolve(&settings, &resolved), 0);
		cr_expect_eq(resolved.rate, rows[i].rate, "row %zu: %lu", i, resolved.rate);
		cr_expect_eq(resolved.symbols, rows[i].symbols, "row %zu: %u", i, resolved.symbols);
		cr_expect_eq(resolved.burst, 20);
	}
}

/* The source gives the same messages as the exchange, and announces each 8 messages before. */
Test(synthetic, source_announces_the_messages_of_the_exchange)
{
	enum { AHEAD = 8, MESSAGES = 3000 };
	const struct synthetic_settings settings = { .seed = 3, .messages = MESSAGES };
	static uint8_t announced[MESSAGES + AHEAD][ITCH_LENGTH_MAX];
	struct source_message message;
	struct synthetic *exchange;
	struct source *source;
	const uint8_t *bytes;
	unsigned int count = 0;
	size_t length;

	cr_assert_eq(synthetic_open(&exchange, &settings), 0);
	cr_assert_eq(synthetic_source_open(&source, &settings), 0);
	for (; synthetic_next(exchange, &bytes, &length) == 1; count++) {
		memset(&message, 0xff, sizeof(message));
		cr_assert_eq(source_next(source, &message), 1);
		cr_assert_eq(message.length, length, "message %u", count);
		cr_assert_arr_eq(message.bytes, bytes, length, "message %u", count);
		if (count >= AHEAD)
			cr_assert_arr_eq(announced[count], bytes, length, "message %u", count);
		cr_assert_eq(message.ahead != NULL, count < MESSAGES - AHEAD, "message %u", count);
		if (message.ahead)
			memcpy(announced[count + AHEAD], message.ahead, message.ahead_length);
		else
			cr_assert_eq(message.ahead_length, 0);
	}
	cr_assert_eq(count, MESSAGES);
	cr_assert_eq(source_next(source, &message), 0);
	source_close(source);
	synthetic_close(exchange);
}
