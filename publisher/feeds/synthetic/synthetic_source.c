/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/feeds/synthetic/synthetic_source.h"

#include "bus/error.h"
#include "publisher/feeds/itch/itch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AHEAD 8  /* messages that are made before they are asked for */
#define KEPT  16 /* a power of two above AHEAD: a message stays valid until the next call */

struct synthetic_source {
	struct source source;
	struct synthetic *synthetic;
	uint64_t offset;
	uint64_t made, given; /* numbers of messages; those between are kept by number */
	uint8_t kept[KEPT][ITCH_LENGTH_MAX];
	uint8_t lengths[KEPT];
	char name[sizeof("synthetic exchange, seed ") + 20];
};

/* Makes a further message; false at the end. */
static bool make(struct synthetic_source *s)
{
	const unsigned int at = (unsigned int)(s->made % KEPT);
	const uint8_t *bytes;
	size_t length;

	if (synthetic_next(s->synthetic, &bytes, &length) == 0)
		return false;
	memcpy(s->kept[at], bytes, length);
	s->lengths[at] = (uint8_t)length;
	s->made++;
	return true;
}

static int next(struct source *source, struct source_message *message)
{
	struct synthetic_source *s = (struct synthetic_source *)source;
	unsigned int at = (unsigned int)(s->given % KEPT);
	bool more = true;

	while (s->made <= s->given + AHEAD && (more = make(s)))
		;
	if (s->given == s->made)
		return 0;
	message->bytes = s->kept[at];
	message->length = s->lengths[at];
	message->offset = s->offset;
	s->offset += SOURCE_FRAME_BYTES + message->length;
	s->given++;
	at = (unsigned int)((s->made - 1) % KEPT);
	message->ahead = more ? s->kept[at] : NULL;
	message->ahead_length = more ? s->lengths[at] : 0;
	return 1;
}

static void close_source(struct source *source)
{
	struct synthetic_source *s = (struct synthetic_source *)source;

	synthetic_close(s->synthetic);
	free(s);
}

static const char *changed(struct source *source)
{
	(void)source;
	return NULL;
}

static const struct source_operations operations = { .next = next,
						     .changed = changed,
						     .close = close_source };

int synthetic_source_open(struct source **source, const struct synthetic_settings *settings)
{
	struct synthetic_source *s = calloc(1, sizeof(*s));
	int result;

	*source = NULL;
	if (!s)
		return error_set(ENOMEM, "synthetic: no memory");
	s->source.operations = &operations;
	s->source.name = s->name;
	snprintf(s->name, sizeof(s->name), "synthetic exchange, seed %" PRIu64, settings->seed);
	result = synthetic_open(&s->synthetic, settings);
	if (result < 0) {
		close_source(&s->source);
		return result;
	}
	*source = &s->source;
	return 0;
}
