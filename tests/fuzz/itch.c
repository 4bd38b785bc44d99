/* SPDX-License-Identifier: Apache-2.0 */
/* Any file yields whole messages, then its end or an error. Any message is used or counted. A
 * decoded message is encoded to the same bytes. */
#include <errno.h>
#include <string.h>

#include "publisher/feeds/framings/source_file.h"
#include "publisher/feeds/itch/itch.h"
#include "publisher/feeds/itch/itch_counters.h"
#include "publisher/feeds/itch/itch_protocol.h"
#include "tests/fuzz/fuzz.h"

static void on_output(void *user, const struct market_output *made)
{
	const uint8_t *bytes = made->data;
	size_t *sum = user;

	FUZZ_EXPECT(made->symbol < MARKET_SYMBOLS && made->select < MARKET_SELECTS);
	FUZZ_EXPECT(made->kind != 0 && made->name && *made->name);
	for (size_t i = 0; i < made->length; i++) /* reads every byte of the message */
		*sum += bytes[i];
}

static void on_malformed(void *user, uint64_t offset, const char *reason)
{
	(void)user;
	(void)offset;
	FUZZ_EXPECT(*reason);
}

static void decode(const struct source_message *raw)
{
	struct itch_message message;
	uint8_t again[ITCH_LENGTH_MAX];
	int result = itch_decode(raw->bytes, raw->length, &message);

	if (result < 0)
		FUZZ_EXPECT(result == -ENOMSG || result == -EMSGSIZE || result == -EBADMSG);
	else
		FUZZ_EXPECT(itch_encode(&message, again) == (int)raw->length &&
			    memcmp(again, raw->bytes, raw->length) == 0);
	fuzz_deep |= result >= 0;
}

static void process(struct protocol *protocol, const struct source_message *message)
{
	int result = protocol_message(protocol, message);

	if (result == PROTOCOL_NEXT_DAY) {
		protocol_clear(protocol);
		result = protocol_message(protocol, message);
	}
	FUZZ_EXPECT(result == 0 || result == PROTOCOL_DEFECT);
}

FUZZ_TARGET(data, size)
{
	static struct protocol *protocol;
	static size_t sum;
	const struct protocol_options options = { .wanted = (1u << MARKET_SELECTS) - 1,
						  .output = on_output,
						  .malformed = on_malformed,
						  .user = &sum };
	struct source_message message;
	struct source *source;
	char path[32];
	const int fd = fuzz_file_open(data, size, path);
	uint64_t offset = 0;
	int result;

	if (!protocol)
		FUZZ_EXPECT(protocol_open(&protocol, &itch_protocol, &options) == 0);
	if (source_file_open(&source, path) == 0) {
		while ((result = source_next(source, &message)) == 1) {
			FUZZ_EXPECT(message.offset == offset && message.length >= 1);
			offset += 2 + message.length;
			decode(&message);
			process(protocol, &message);
		}
		FUZZ_EXPECT(result == 0 || *tb_error());
		FUZZ_EXPECT(source_next(source, &message) ==
			    result); /* and the state does not change */
		source_close(source);
		protocol_clear(protocol);
	}
	fuzz_file_close(fd);
	return 0;
}
