/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas that were learned from the publisher, by fingerprint. */
#include "subscriber/schemas.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bus/error.h"
#include "tickbus/record.h"
#include "tickbus/schema.h"

static bool schema_used(const struct tb_subscriber *subscriber, const struct tb_schema *schema)
{
	for (uint32_t i = 0; i < subscriber->table_used; i++) {
		const struct tb_source *source = subscriber->table[i];

		if (source &&
		    (source->mapping.schema == schema || source->successor.schema == schema))
			return true;
	}
	for (unsigned int i = 0; i < FABRIC_UNANSWERED; i++)
		if (subscriber->discovery.requests[i].schema == schema)
			return true;
	return false;
}

/* Schemas of topics that are joined, or requested, are kept. Others may be endless. */
void schemas_forget(struct tb_subscriber *subscriber)
{
	struct schema_cache **link = &subscriber->schemas;

	subscriber->schemas_learned = 0;
	while (*link) {
		struct schema_cache *cache = *link;

		if (schema_used(subscriber, cache->schema)) {
			link = &cache->next;
			continue;
		}
		*link = cache->next;
		tb_schema_free(cache->schema);
		free(cache);
	}
}

const struct tb_schema *schemas_find(const struct tb_subscriber *subscriber, uint64_t fingerprint)
{
	for (const struct schema_cache *c = subscriber->schemas; c; c = c->next)
		if (c->fingerprint == fingerprint)
			return c->schema;
	return NULL;
}

/* The text is not trusted: it is parsed with the loader's limits, and must have the announced
 * fingerprint. */
int schemas_learn(struct tb_subscriber *subscriber, const struct control_topic *topic)
{
	struct schema_cache *cache = calloc(1, sizeof(*cache));
	char origin[TB_TOPIC_NAME_MAX + 32];
	int result;

	if (!cache)
		return error_set(ENOMEM, "topic %s: no memory for its schema", topic->name);
	snprintf(origin, sizeof(origin), "schema of topic %s", topic->name);
	result = tb_schema_parse(&cache->schema, subscriber->discovery.text,
				 subscriber->discovery.text_bytes, origin);
	if (result == 0 && tb_schema_fingerprint(cache->schema) != topic->shape.fingerprint) {
		result = error_set(EPROTO,
				   "topic %s: found a schema with fingerprint %016" PRIx64
				   ", expected %016" PRIx64,
				   topic->name, tb_schema_fingerprint(cache->schema),
				   topic->shape.fingerprint);
		tb_schema_free(cache->schema);
	}
	if (result < 0) {
		free(cache);
		return result;
	}
	if (subscriber->schemas_learned == SCHEMAS_KEPT)
		schemas_forget(subscriber);
	subscriber->schemas_learned++;
	cache->fingerprint = topic->shape.fingerprint;
	cache->next = subscriber->schemas;
	subscriber->schemas = cache;
	return 0;
}
