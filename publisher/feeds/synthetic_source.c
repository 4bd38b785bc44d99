/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/feeds/synthetic_source.h"

#include "bus/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct synthetic_source {
	struct source source;
	struct synthetic *synthetic;
	uint64_t offset;
	char name[sizeof("synthetic exchange, seed ") + 20];
};

static int next(struct source *source, struct source_message *message)
{
	struct synthetic_source *s = (struct synthetic_source *)source;
	int result = synthetic_next(s->synthetic, &message->bytes, &message->length);

	if (result == 1) {
		message->offset = s->offset;
		s->offset += 2 + message->length;
	}
	return result;
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
