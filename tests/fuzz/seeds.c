/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the corpus of targets with binary inputs, by the project's own encoders.
 *
 *   seeds FOLDER       makes FOLDER/TARGET/NAME
 *
 * Files in tests/fuzz/corpus that begin with "made-" come from here. scripts/fuzz found those that
 * begin with "reached-". The others were written by hand. */
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

#include "bus/bus_page.h"
#include "bus/control.h"
#include "bus/directory.h"
#include "bus/notice.h"
#include "bus/quality.h"
#include "bus/verbs/verbs_channel.h"
#include "bus/verbs/verbs_private_data.h"
#include "publisher/feeds/itch/itch.h"
#include "bus/bounds.h"
#include "tests/fuzz/fuzz.h"

static const char *folder;

static void save(const char *target, const char *name, const void *bytes, size_t size)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, target);
	mkdir(path, 0777);
	snprintf(path, sizeof(path), "%s/%s/made-%s", folder, target, name);
	file = fopen(path, "wb");
	FUZZ_EXPECT(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

/* The target's prefix, then the bytes. */
static void save_behind(const char *target, const char *name, const void *prefix, size_t before,
			const void *bytes, size_t size)
{
	uint8_t whole[8192];

	memcpy(whole, prefix, before);
	memcpy(whole + before, bytes, size);
	save(target, name, whole, before + size);
}

/* -- memory -------------------------------------------------------------------------------------
 */

static void slots(void)
{
	static const uint16_t lengths[] = { 0, 1, 32, 4064 };
	_Alignas(8) uint8_t slot[SLOT_BYTES_MAX];
	char name[32];

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct record record = { .sequence = 7, .instrument = 3, .kind = TB_KIND_UPDATE };
		const size_t slot_bytes = (RECORD_HEADER_BYTES + lengths[i] + 63u) / 64 * 64;
		const uint8_t code[2] = { (uint8_t)(slot_bytes / 64 - 1), 7 };

		record.length = lengths[i];
		memset(record.payload, 'x', lengths[i]);
		memset(slot, 0, sizeof(slot));
		record_store((struct slot *)(void *)slot, &record, true,
			     record_salt(7, 1, TAG_RECORD));
		snprintf(name, sizeof(name), "%u", lengths[i]);
		save_behind("slot", name, code, sizeof(code), slot,
			    RECORD_HEADER_BYTES + lengths[i]);
	}
}

static void quality_slot(void)
{
	const struct quality quality = { TB_QUALITY_SUSPECT, TB_QUALITY_NO_END };
	struct record record = { .sequence = 7,
				 .instrument = QUALITY_INSTRUMENT,
				 .length = sizeof(quality),
				 .kind = TB_KIND_QUALITY };
	const uint8_t code[2] = { 0, 7 };
	_Alignas(8) uint8_t slot[SLOT_BYTES_MIN] = { 0 };

	memcpy(record.payload, &quality, sizeof(quality));
	record_store((struct slot *)(void *)slot, &record, true, record_salt(7, 1, TAG_RECORD));
	save_behind("slot", "quality", code, sizeof(code), slot,
		    RECORD_HEADER_BYTES + sizeof(quality));
}

static void lines(void)
{
	struct progress progress = {
		.head = 100, .reserved = 104, .first = 1, .epoch = 7, .instruments = 3, .state = 1
	};
	struct progress_line line;
	const uint8_t code[3] = { 0, 6, 7 }, of_group[3] = { 0, 6, 15 };
	_Alignas(64) uint8_t page[4096] = { 0 };
	struct bus_pulse pulse = { .count = 5, .bus_id = 9, .topics = 2 };
	struct bus_entry entry = { .epoch = 7, .head = 100, .topic_id = 1, .state = 1, .beat = 4 };
	const uint8_t prefix[5] = { 4, 0, 0, 0, 3 };
	struct directory_entry names[3];
	const uint8_t stored = 1;

	progress_store(&line, &progress, true, record_salt(7, 1, TAG_PROGRESS));
	save_behind("progress", "live", code, sizeof(code), &line, sizeof(line));
	progress.quality = TB_QUALITY_REBUILDING;
	progress_store(&line, &progress, true, record_salt(7, 1, TAG_PROGRESS));
	save_behind("progress", "rebuilding", code, sizeof(code), &line, sizeof(line));
	progress.complete_ns = UINT64_C(1700000000000000000);
	progress_store(&line, &progress, true, record_salt(7, 1, TAG_PROGRESS));
	save_behind("progress", "group", of_group, sizeof(of_group), &line, sizeof(line));
	bus_page_store_entry(page, 0, &entry, 9);
	bus_page_store_pulse(page, &pulse);
	save_behind("bus_page", "one", prefix, sizeof(prefix), page, sizeof(pulse) + sizeof(entry));
	directory_store(names, 2, "AAPL", record_salt(7, 1, TAG_DIRECTORY));
	save_behind("directory", "aapl", &stored, 1, &names[2], sizeof(names[2]));
}

/* -- messages -----------------------------------------------------------------------------------
 */

static void notices(void)
{
	_Alignas(8) uint8_t bytes[BOUND_NOTICE_BYTES_MAX];
	struct record record = { .sequence = 7, .kind = TB_KIND_UPDATE, .length = 30 };
	struct notice_writer writer;

	notice_begin(&writer, bytes, 1024, 9, 1);
	notice_entry(&writer, 1, 7, 100);
	save("notice", "head", bytes, notice_finish(&writer));
	notice_begin(&writer, bytes, 1024, 9, 1);
	for (uint32_t topic = 1; topic <= 3; topic++) {
		notice_entry(&writer, topic, 7, 100);
		for (uint32_t i = 0; i < topic; i++)
			notice_record(&writer, &record);
	}
	save("notice", "records", bytes, notice_finish(&writer));
}

static void message_save(const char *name, const struct control_message *message)
{
	const uint8_t which = 2;
	uint8_t bytes[FABRIC_MESSAGE_BYTES];

	save_behind("control", name, &which, 1, bytes, control_encode(message, bytes));
}

static void messages_plain(void)
{
	static const struct {
		enum control_type type;
		const char *name;
	} plain[] = { { CONTROL_SCHEMA, "schema" },
		      { CONTROL_JOIN, "join" },
		      { CONTROL_LEAVE, "leave" },
		      { CONTROL_ARM, "arm" },
		      { CONTROL_WAKE, "wake" },
		      { CONTROL_COUNTERS, "counters" },
		      { CONTROL_REVOKE, "revoke" },
		      { CONTROL_ENDING, "ending" },
		      { CONTROL_UNPUBLISHED, "unpublished" } };

	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		struct control_message message = { .type = plain[i].type, .request = 5 };

		message.topic.topic_id = 1;
		message_save(plain[i].name, &message);
	}
}

static void messages(void)
{
	const struct control_topic topic = { .shape = { .epoch = 7,
							.fingerprint = 8,
							.slots = 64,
							.slot_bytes = 64,
							.capacity = 16,
							.topic_id = 1,
							.flags = 3 },
					     .state = TOPIC_LIVE,
					     .name = "nasdaq.quote",
					     .schema = "quote",
					     .schema_version = 1,
					     .schema_bytes = 300 };
	struct control_message message = { .type = CONTROL_CATALOGUE, .request = 1 };

	strcpy(message.catalogue.pattern, "nasdaq.>");
	message_save("catalogue", &message);
	message = (struct control_message){ .type = CONTROL_TOPICS, .topics = { .count = 2 } };
	message.topics.topic[0] = message.topics.topic[1] = topic;
	message_save("topics", &message);
	message = (struct control_message){ .type = CONTROL_GRANT };
	message.grant.topic = topic;
	message.grant.region_bytes = 16384;
	message_save("grant", &message);
	message = (struct control_message){ .type = CONTROL_SCHEMA_BYTES,
					    .schema_bytes = { 1, 0, 300, 5, "name:" } };
	message_save("schema_bytes", &message);
	message = (struct control_message){ .type = CONTROL_REFUSE,
					    .refuse = { 1, 2, "there is no such topic" } };
	message_save("refuse", &message);
	message = (struct control_message){ .type = CONTROL_VALUES,
					    .values = { 1, 0, 1, 1, 1, "b", { { "a", "b", 1 } } } };
	message_save("values", &message);
	message = (struct control_message){ .type = CONTROL_UNPUBLISHED_NAMES,
					    .unpublished_names = { 1, 1, 1, { { "AAPL", 9 } } } };
	message_save("unpublished_names", &message);
	messages_plain();
}

static void greetings(void)
{
	const struct control_hello hello = { .version_low = 2, .version_high = 2, .nonce = { 5 } };
	const struct control_hello second = {
		.version_low = 2, .version_high = 2, .nonce = { 5 }, .cookie = { 6 }, .proof = { 7 }
	};
	const struct control_welcome welcome = {
		.version = 2, .bus_id = 9, .stale_ms = 1000, .topics_max = 256, .name = "b"
	};
	uint8_t bytes[FABRIC_WELCOME_BYTES], which = 0;

	save_behind("control", "second_hello", &which, 1, bytes,
		    control_hello_encode(&second, bytes));
	save_behind("control", "hello", &which, 1, bytes, control_hello_encode(&hello, bytes));
	which = 1;
	save_behind("control", "welcome", &which, 1, bytes,
		    control_welcome_encode(&welcome, bytes));
}

/* -- over RDMA ----------------------------------------------------------------------------------
 */

static void private_data(void)
{
	const struct verbs_private_data welcome = { VERBS_MARK, 5, "hello" };
	const struct verbs_private_data challenge = { VERBS_MARK, 0, "sixteen bytes..." };
	const struct verbs_private_data refusal = { VERBS_MARK, 13, "no permission" };
	const uint8_t which = 0;

	save_behind("verbs", "welcome", &which, 1, &welcome, sizeof(welcome));
	save_behind("verbs", "challenge", &which, 1, &challenge, VERBS_PRIVATE_DATA_HEADER + 16);
	save_behind("verbs", "refusal", &which, 1, &refusal, VERBS_PRIVATE_DATA_HEADER + 13);
}

/* Frames with and without a message, SENDs, and completions. */
static void conversation(void)
{
	static const uint8_t send[3] = { 3, 7, 0 }, finish[3] = { 2, 0, 0 }, take[3] = { 4, 0, 0 },
			     read[3] = { 5, 8, 0 }, probe[3] = { 6, 0, 0 },
			     progress[3] = { 7, 0, 0 }, frame[3] = { 0, VERBS_FRAME_HEADER + 4, 0 };
	const uint8_t *const steps[] = { send,   send,   read,   probe,   finish,
					 finish, finish, finish, progress };
	uint8_t bytes[4096] = { 1 };
	size_t size = 1;

	for (size_t round = 0; round < 20; round++) {
		const uint32_t arrives[3] = { (uint32_t)round, 0, 1 };

		for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++, size += 3)
			memcpy(bytes + size, steps[i], 3);
		memcpy(bytes + size, frame, 3);
		memcpy(bytes + size + 3, arrives, sizeof(arrives));
		size += 3 + sizeof(arrives);
		memcpy(bytes + size, progress, 3);
		memcpy(bytes + size + 3, take, 3);
		size += 6;
	}
	save("verbs", "conversation", bytes, size);
}

/* -- feeds --------------------------------------------------------------------------------------
 */

/* A message of each type, about the same few orders. */
static size_t day(uint8_t *bytes)
{
	size_t size = 0;

	for (unsigned int i = 0; i < ITCH_TYPE_COUNT; i++) {
		struct itch_message message;
		int length;

		memset(&message, 0, sizeof(message));
		message.type = itch_types[i].code;
		message.locate = 1;
		message.time_ns = UINT64_C(34200000000000) + i;
		if (message.type == 'A' || message.type == 'F') {
			message.add.reference = i;
			message.add.side = i % 2 ? 'B' : 'S';
			message.add.shares = 100;
			message.add.price = 10000 + i;
			memcpy(message.add.stock, "AAPL    ", 8);
		} else if (message.type == 'R') {
			memcpy(message.directory.stock, "AAPL    ", 8);
		} else {
			message.executed.reference = 10; /* of type A; any number for others */
		}
		length = itch_encode(&message, bytes + size + 2);
		FUZZ_EXPECT(length > 0);
		bytes[size] = 0;
		bytes[size + 1] = (uint8_t)length;
		size += 2 + (size_t)length;
	}
	return size;
}

static void days(void)
{
	uint8_t plain[2048], packed[4096];
	const size_t size = day(plain);
	z_stream gzip = { .next_in = plain,
			  .avail_in = (uInt)size,
			  .next_out = packed,
			  .avail_out = sizeof(packed) };

	save("itch", "day", plain, size);
	FUZZ_EXPECT(deflateInit2(&gzip, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) ==
		    Z_OK);
	FUZZ_EXPECT(deflate(&gzip, Z_FINISH) == Z_STREAM_END);
	save("itch", "day.gz", packed, gzip.total_out);
	deflateEnd(&gzip);
	save("itch", "day.zst", packed, ZSTD_compress(packed, sizeof(packed), plain, size, 3));
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 2;
	}
	folder = argv[1];
	mkdir(folder, 0777);
	slots();
	quality_slot();
	lines();
	notices();
	messages();
	greetings();
	private_data();
	conversation();
	days();
	return 0;
}
