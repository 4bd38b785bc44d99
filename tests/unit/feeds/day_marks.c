/* SPDX-License-Identifier: Apache-2.0 */
/* A whole day begins with system event O and ends with system event C. A cut between any two
 * messages is found, in every form of a file. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "publisher/feeds/day_marks.h"
#include "publisher/feeds/framings/source_file.h"
#include "publisher/feeds/itch/itch_protocol.h"
#include "publisher/feeds/itch/itch.h"
#include "publisher/feeds/synthetic/synthetic.h"
#include "publisher/feeds/synthetic/synthetic_source.h"
#include "tickbus/error.h"

static size_t put(uint8_t *bytes, char type, char event, uint64_t time_ns)
{
	struct itch_message message;
	int length;

	memset(&message, 'B', sizeof(message));
	message.type = type;
	message.time_ns = time_ns;
	if (type == 'S')
		message.event.event = event;
	length = itch_encode(&message, bytes + 2);
	bytes[0] = 0;
	bytes[1] = (uint8_t)length;
	return 2 + (size_t)length;
}

/* A whole day: O, orders, C. Returns its bytes; `ends` has the offset behind each message. */
#define DAY 7
static size_t make_day(uint8_t *bytes, size_t *ends)
{
	static const char types[DAY] = { 'S', 'S', 'A', 'D', 'S', 'A', 'S' };
	static const char events[DAY] = { 'O', 'S', 0, 0, 'M', 0, 'C' };
	size_t size = 0;

	for (unsigned int i = 0; i < DAY; i++) {
		size += put(bytes + size, types[i], events[i],
			    UINT64_C(34776663325325) + i * UINT64_C(1000000000));
		ends[i] = size;
	}
	return size;
}

/* As the protocol does, but for malformed messages. */
static bool note(struct day_marks *marks, const struct source_message *message)
{
	struct protocol_time time;

	if (itch_protocol.time(message, &time))
		marks->time_ns = time.time_ns;
	return day_marks_note(marks, message, itch_protocol.mark(message));
}

static struct day_marks read_all(struct source *source, unsigned int *count)
{
	struct day_marks marks = { 0 };
	struct source_message message;
	int result;

	*count = 0;
	while ((result = source_next(source, &message)) > 0)
		cr_assert_eq(note(&marks, &message), (*count)++ == 0);
	cr_assert_eq(result, 0, "%s", tb_error());
	source_close(source);
	return marks;
}

static size_t compress_gzip(const uint8_t *from, size_t size, uint8_t *to, size_t room)
{
	z_stream stream = { 0 };

	deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
	stream.next_in = (uint8_t *)(uintptr_t)from;
	stream.avail_in = (uInt)size;
	stream.next_out = to;
	stream.avail_out = (uInt)room;
	cr_assert_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
	deflateEnd(&stream);
	return stream.total_out;
}

enum form { PLAIN, GZIP, ZSTD, FORMS };

/* Reads the bytes from a file of this form, whole or as two members of it. */
static struct day_marks read_form(enum form form, const uint8_t *bytes, size_t size,
				  unsigned int *count)
{
	char path[] = "/tmp/tickbus-marks-XXXXXX";
	uint8_t packed[4096];
	struct source *source;
	struct day_marks marks;
	size_t length = size;
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	memcpy(packed, bytes, size);
	if (form == GZIP)
		length = compress_gzip(bytes, size, packed, sizeof(packed));
	else if (form == ZSTD)
		length = ZSTD_compress(packed, sizeof(packed), bytes, size, 3);
	cr_assert_eq(write(fd, packed, length), (ssize_t)length);
	close(fd);
	cr_assert_eq(source_file_open(&source, path), 0, "%s", tb_error());
	unlink(path);
	marks = read_all(source, count);
	return marks;
}

Test(day_marks, day_cut_behind_any_message_lacks_its_end)
{
	uint8_t day[4096];
	size_t ends[DAY];
	unsigned int count;

	make_day(day, ends);
	for (enum form form = PLAIN; form < FORMS; form++)
		for (unsigned int last = 0; last < DAY; last++) {
			const struct day_marks marks = read_form(form, day, ends[last], &count);

			cr_expect_eq(count, last + 1);
			cr_expect(marks.started, "form %d, message %u", form, last);
			cr_expect_eq(marks.ended, last == DAY - 1, "form %d, message %u", form,
				     last);
			cr_expect_eq(marks.end, ends[last]);
		}
}

Test(day_marks, day_cut_before_any_message_lacks_its_start)
{
	uint8_t day[4096];
	size_t ends[DAY], size = make_day(day, ends);
	unsigned int count;

	for (enum form form = PLAIN; form < FORMS; form++)
		for (unsigned int first = 1; first < DAY; first++) {
			const struct day_marks marks = read_form(form, day + ends[first - 1],
								 size - ends[first - 1], &count);

			cr_expect_not(marks.started, "form %d, message %u", form, first);
			cr_expect(marks.ended);
		}
}

Test(day_marks, only_a_whole_system_event_is_a_mark)
{
	struct day_marks marks;
	struct source_message message = { .length = 12 };
	uint8_t bytes[64] = "S          O";

	message.bytes = bytes;
	marks = (struct day_marks){ 0 };
	note(&marks, &message);
	cr_expect(marks.started && !marks.ended);
	message.length = 13;
	marks = (struct day_marks){ 0 };
	note(&marks, &message);
	cr_expect_not(marks.started, "a wrong length");
	message.length = 12;
	bytes[0] = 'B';
	bytes[11] = 'C';
	marks = (struct day_marks){ 0 };
	note(&marks, &message);
	cr_expect_not(marks.ended, "another type");
	bytes[0] = 'S';
	note(&marks, &message);
	cr_expect(marks.ended && !marks.started);
	message.length = 1;
	note(&marks, &message);
	cr_expect_not(marks.ended, "messages follow");
}

Test(day_marks, texts_say_where_and_what_was_expected)
{
	uint8_t day[4096];
	size_t ends[DAY];
	unsigned int count;
	char text[DAY_MARKS_TEXT_BYTES];
	struct day_marks marks;

	make_day(day, ends);
	marks = read_form(PLAIN, day, ends[3], &count);
	day_marks_no_end(&marks, itch_protocol.end, text);
	cr_expect_str_eq(text, "ends at offset 87 of the uncompressed stream, after a message of "
			       "09:39:39.663325325, expected the end of the day's messages (system "
			       "event C)");
	marks = (struct day_marks){ 0 };
	for (size_t i = 2; i < 5; i++) /* the first of them is the place */
		note(&marks, &(struct source_message){ .bytes = day + ends[i - 1] + 2,
						       .length = ends[i] - ends[i - 1] - 2,
						       .offset = 4321 + ends[i - 1] });
	day_marks_no_start(&marks, itch_protocol.start, text);
	cr_expect_str_eq(text,
			 "begins at offset 4349 of the uncompressed stream, with a message of "
			 "09:39:40.663325325, expected the start of the day's messages (system "
			 "event O)");
}

Test(day_marks, time_of_24_hours_or_more_is_no_time_of_day)
{
	static const struct {
		uint64_t time_ns;
		const char *text;
	} cases[] = {
		{ UINT64_C(86399999999999), "23:59:59.999999999" },
		{ UINT64_C(86400000000000), "86400000000000 ns (no time of day)" },
		{ UINT64_C(97688995410213), "97688995410213 ns (no time of day)" },
	};
	char text[DAY_MARKS_TIME_BYTES];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		day_marks_time(cases[i].time_ns, text);
		cr_expect_str_eq(text, cases[i].text);
	}
}

Test(day_marks, longest_texts_fit)
{
	const struct day_marks marks = { .begin = UINT64_MAX,
					 .end = UINT64_MAX,
					 .time_ns = (UINT64_C(1) << 48) - 1 };
	char text[DAY_MARKS_TEXT_BYTES], time[DAY_MARKS_TIME_BYTES];

	day_marks_time(marks.time_ns, time);
	cr_expect_str_eq(time, "281474976710655 ns (no time of day)");
	day_marks_no_end(&marks, itch_protocol.end, text);
	cr_expect(strstr(text, "(system event C)"), "%s", text);
	day_marks_no_start(&marks, itch_protocol.start, text);
	cr_expect(strstr(text, "(system event O)"), "%s", text);
}

/* A bounded number of messages or of seconds is a whole day of the exchange. */
Test(day_marks, bounded_synthetic_stream_is_a_whole_day)
{
	static const struct synthetic_settings all[] = {
		{ .seed = 3, .messages = 520 },
		{ .seed = 4, .messages = 9001 },
		{ .seed = 5, .seconds = 1, .rate = 2000, .symbols = 20 }
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct source *source;
		struct day_marks marks;
		unsigned int count;

		cr_assert_eq(synthetic_source_open(&source, &all[i]), 0, "%s", tb_error());
		marks = read_all(source, &count);
		cr_expect(marks.started && marks.ended, "settings %zu", i);
	}
}
