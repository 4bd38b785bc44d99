/* SPDX-License-Identifier: Apache-2.0 */
/* One joined topic: from the grant to the position that is read, and to the epoch after it.
 *
 * Nothing of a grant is believed: the layout is computed from the shape, the region's size must be
 * the layout's, and the header in the memory must say the same. */
#include "subscriber/subscriber.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"
#include "bus/words.h"
#include "bus/clock.h"
#include "subscriber/deliver.h"

/* -- places -------------------------------------------------------------------------------------
 */

static void place_close(struct tb_subscriber *subscriber, struct place *place)
{
	if (place->remote)
		subscriber->ops->remote_close(place->remote);
	free(place->names);
	memset(place, 0, sizeof(*place));
}

static int place_open(struct tb_subscriber *subscriber, const struct tb_schema *schema,
		      const struct control_message *grant, struct place *place)
{
	const struct control_topic *topic = &grant->grant.topic;
	int result;

	memset(place, 0, sizeof(*place));
	place->shape = topic->shape;
	place->schema = schema;
	place->checked = topic->shape.flags & REGION_FLAG_CHECKED;
	result = region_layout(&place->shape, &place->layout);
	if (result < 0)
		return error_prefix(-EPROTO, "topic %s: the publisher's grant: ", topic->name);
	if (grant->grant.region_bytes != place->layout.bytes)
		return error_set(EPROTO,
				 "topic %s: the publisher's grant: found %" PRIu64
				 " bytes of memory, expected %" PRIu64,
				 topic->name, grant->grant.region_bytes, place->layout.bytes);
	if (place->shape.slot_bytes != region_slot_bytes(tb_schema_bytes(schema)))
		return error_set(EPROTO,
				 "topic %s: the publisher's grant: found slots of %" PRIu32
				 " bytes, expected %" PRIu32 " for schema %s",
				 topic->name, place->shape.slot_bytes,
				 region_slot_bytes(tb_schema_bytes(schema)),
				 tb_schema_name(schema));
	if (subscriber->ops->network && !place->checked)
		return error_set(
			EPROTO,
			"topic %s: its records have no check: only shared memory can serve it",
			topic->name);
	place->names = calloc(place->shape.capacity, sizeof(*place->names));
	if (!place->names)
		return error_set(ENOMEM, "topic %s: no memory for %" PRIu32 " names", topic->name,
				 place->shape.capacity);
	result = subscriber->ops->remote_open(subscriber->link, grant->grant.key,
					      place->layout.bytes, &place->remote);
	if (result < 0) {
		place_close(subscriber, place);
		return error_prefix(result, "topic %s: ", topic->name);
	}
	place->view = subscriber->ops->view(place->remote);
	place->record_salt = record_salt(place->shape.epoch, place->shape.topic_id, TAG_RECORD);
	place->progress_salt = record_salt(place->shape.epoch, place->shape.topic_id, TAG_PROGRESS);
	place->directory_salt =
		record_salt(place->shape.epoch, place->shape.topic_id, TAG_DIRECTORY);
	return 0;
}

/* -- coming and going ---------------------------------------------------------------------------
 */

struct tb_source *source_find(const struct tb_subscription *subscription, const char *name)
{
	for (struct tb_source *source = subscription->sources; source; source = source->next_source)
		if (source->state != SOURCE_DEAD && strcmp(source->name, name) == 0)
			return source;
	return NULL;
}

static size_t landing_bytes(const struct tb_source *source)
{
	return source->halves * source->half_bytes + REGION_PAGE;
}

/* Memory for what is fetched: of the link where READs land in it. */
static int landing_make(struct tb_source *source, bool local)
{
	struct tb_subscriber *subscriber = source->subscription->subscriber;

	if (source->landing)
		return 0;
	source->landing_local = local;
	source->halves = subscriber->batch_bytes >= 2 * subscriber->read_bytes ? 2 : 1;
	source->half_bytes = local ? 0 : subscriber->batch_bytes / source->halves;
	if (!local)
		source->landing = subscriber->ops->landing(subscriber->link, landing_bytes(source));
	else if (!(source->landing = aligned_alloc(REGION_PAGE, REGION_PAGE)))
		error_set(ENOMEM, "topic %s: no memory", source->name);
	return source->landing ? 0 : -ENOMEM;
}

static void landing_drop(struct tb_source *source)
{
	struct tb_subscriber *subscriber = source->subscription->subscriber;

	if (source->landing_local)
		free(source->landing);
	else if (source->landing)
		subscriber->ops->landing_free(subscriber->link, source->landing,
					      landing_bytes(source));
	source->landing = NULL;
}

static void source_free(struct tb_source *source)
{
	struct tb_subscriber *subscriber = source->subscription->subscriber;

	place_close(subscriber, &source->place);
	place_close(subscriber, &source->successor);
	landing_drop(source);
	subscriber->table[source->slot] = NULL;
	free(source);
}

void source_reap(struct tb_source *source)
{
	struct tb_source **link = &source->subscription->sources;

	if (source->state != SOURCE_DEAD)
		return;
	if (source->under_way > 0) {
		source->subscription->subscriber->untidy = true;
		return;
	}
	while (*link != source)
		link = &(*link)->next_source;
	*link = source->next_source;
	source_free(source);
}

/* Whether a source needs the join that this connection has of an epoch. */
static bool source_holds(const struct tb_source *source, uint64_t epoch)
{
	if (source->orphan || source->state == SOURCE_DEAD)
		return false;
	if (source->has_successor)
		return source->successor.shape.epoch == epoch;
	return source->state != SOURCE_ENDED && source->place.shape.epoch == epoch;
}

/* Ends the join that this subscriber's subscriptions have in common, unless one of them needs it.
 */
static void join_end(struct tb_subscriber *subscriber, const struct region_shape *shape)
{
	struct control_message leave = { .type = CONTROL_LEAVE };

	for (uint32_t i = 0; i < subscriber->topics_max; i++)
		if (subscriber->table[i] && source_holds(subscriber->table[i], shape->epoch))
			return;
	leave.topic.topic_id = shape->topic_id;
	leave.topic.epoch = shape->epoch;
	connection_send(subscriber, &leave);
}

void source_decline(struct tb_subscriber *subscriber, const struct control_topic *topic)
{
	join_end(subscriber, &topic->shape);
}

static void source_become(struct tb_source *source, enum source_state state)
{
	struct tb_subscriber *subscriber = source->subscription->subscriber;
	const struct place *last = source->has_successor ? &source->successor : &source->place;
	const bool held = source_holds(source, last->shape.epoch);

	source->state = state;
	if (!held || !subscriber->welcomed)
		return;
	join_end(subscriber, &last->shape);
	notices_leave(source);
}

void source_leave(struct tb_source *source)
{
	source_become(source, SOURCE_DEAD);
	source->subscription->subscriber->untidy = true;
}

void source_end(struct tb_source *source)
{
	pull_read_drop(source);
	source_become(source, SOURCE_ENDED);
}

void source_orphan(struct tb_source *source)
{
	source->orphan = true;
	source->armed = false;
	source->look = true;
	source->noticed_ms = 0;
	if (source->place.view)
		return;
	/* Where only READs reach it, the memory went with the connection. */
	if (source->place.remote)
		source->subscription->subscriber->ops->remote_close(source->place.remote);
	source->place.remote = NULL;
	place_close(source->subscription->subscriber, &source->successor);
	source->has_successor = false;
	pull_read_drop(source);
	landing_drop(source);
}

static int source_new(struct tb_subscription *subscription, const char *name, bool local,
		      struct tb_source **out)
{
	struct tb_subscriber *subscriber = subscription->subscriber;
	struct tb_source *source;
	uint32_t slot = 0;
	int result;

	while (slot < subscriber->topics_max && subscriber->table[slot])
		slot++;
	if (slot == subscriber->topics_max)
		return error_set(ENOSPC,
				 "topic %s: %" PRIu32 " topics are joined, which is topics_max",
				 name, subscriber->topics_max);
	source = calloc(1, sizeof(*source));
	if (!source)
		return error_set(ENOMEM, "topic %s: no memory", name);
	source->subscription = subscription;
	source->slot = slot;
	memcpy(source->name, name, strlen(name) + 1);
	result = landing_make(source, local);
	if (result < 0) {
		free(source);
		return result;
	}
	subscriber->table[slot] = source;
	if (subscriber->table_used <= slot)
		subscriber->table_used = slot + 1;
	source->next_source = subscription->sources;
	subscription->sources = source;
	*out = source;
	return 0;
}

static void source_begin(struct tb_source *source)
{
	source->state = SOURCE_HEADER;
	source_fetch(source, FETCH_HEADER, 0, sizeof(struct region_header));
}

/* The same epoch again, over a new connection: the position is kept, and the memory is compared as
 * any other. What was read to its end meanwhile needs no join. */
static int source_adopt(struct tb_source *source, struct place *place)
{
	struct tb_subscriber *subscriber = source->subscription->subscriber;

	if (memcmp(&source->place.shape, &place->shape, sizeof(place->shape)) != 0) {
		place_close(subscriber, place);
		return error_set(EPROTO,
				 "topic %s: the publisher grants epoch %016" PRIx64
				 " with another layout than before",
				 source->name, source->place.shape.epoch);
	}
	if (source->state == SOURCE_ENDED) {
		place_close(subscriber, place);
		join_end(subscriber, &source->place.shape);
		return 0;
	}
	place_close(subscriber, &source->place);
	source->place = *place;
	source->orphan = false;
	source->look = true;
	source->stale_code = 0;
	source_begin(source);
	return 0;
}

static int grant_use(struct tb_subscription *subscription, const struct tb_schema *schema,
		     const struct control_message *grant, struct tb_source **out)
{
	struct tb_subscriber *subscriber = subscription->subscriber;
	struct tb_source *source = source_find(subscription, grant->grant.topic.name);
	struct place place;
	int result = place_open(subscriber, schema, grant, &place);

	if (result < 0)
		return result;
	if (source) {
		result = landing_make(source, place.view != NULL);
		if (result < 0) {
			place_close(subscriber, &place);
			return result;
		}
	}
	*out = source;
	if (source && source->place.shape.epoch == place.shape.epoch)
		return source_adopt(source, &place);
	if (source) {
		place_close(subscriber, &source->successor);
		source->successor = place;
		source->has_successor = true;
		source->orphan = false;
		source->joined = grant->grant.head;
		source->invalid = 0;
		source->look = true;
		return 0;
	}
	result = source_new(subscription, grant->grant.topic.name, place.view != NULL, &source);
	if (result < 0) {
		place_close(subscriber, &place);
		return result;
	}
	source->place = place;
	source->joined = grant->grant.head;
	*out = source;
	source_begin(source);
	return 0;
}

int source_grant(struct tb_subscription *subscription, const struct tb_schema *schema,
		 const struct control_message *grant)
{
	struct tb_source *source = NULL;
	const int result = grant_use(subscription, schema, grant, &source);

	if (result == 0)
		notices_join(source, &grant->grant.topic.notices);
	return result;
}

/* -- fetching -----------------------------------------------------------------------------------
 */

bool source_line(struct tb_source *source, bool valid)
{
	if (valid) {
		source->invalid = 0;
	} else if (source->invalid++ == 0) {
		source->invalid_ms = clock_coarse_ms();
		source->next_when_invalid = source->next;
	}
	return valid;
}

static char *source_page(const struct tb_source *source)
{
	return source->landing + landing_bytes(source) - REGION_PAGE;
}

uint64_t source_tag(const struct tb_source *source, enum fetch_kind kind, unsigned int half)
{
	return (uint64_t)source->slot << 16 | half << 8 | (uint64_t)kind;
}

int source_fetch(struct tb_source *source, enum fetch_kind kind, uint64_t offset, uint32_t bytes)
{
	struct tb_subscriber *subscriber = source->subscription->subscriber;
	struct fabric_read read = { .remote = source->place.remote,
				    .offset = offset,
				    .bytes = bytes,
				    .tag = source_tag(source, kind, 0) };
	int result;

	if (!source->place.view && (!subscriber->link || !read.remote))
		return -ENOTCONN; /* and what it would land in went with the connection */
	read.into = source_page(source);
	if (source->place.view) {
		if (kind == FETCH_PROGRESS)
			progress_load(
				(const struct progress_line *)(const void *)(source->place.view +
									     offset),
				read.into);
		else
			words_load(read.into, source->place.view + offset, bytes);
		atomic_thread_fence(memory_order_acquire);
		source_fetched(source, kind, 0);
		return 1;
	}
	result = connection_read(source, &read, 1);
	if (result != 1)
		return result < 0 ? result : -EAGAIN;
	source->page_under_way = true;
	source->subscription->counters[SUBSCRIPTION_LOOKS] += kind == FETCH_PROGRESS;
	return 0;
}

static void header_fetched(struct tb_source *source)
{
	struct region_header header;

	memcpy(&header, source_page(source), sizeof(header));
	if (region_header_verify(&header, &source->place.shape, source->name) < 0) {
		struct tb_subscription *subscription = source->subscription;

		discovery_outcome(subscription, EPROTO, tb_error());
		deliver_refused(subscription, source->name, EPROTO, tb_error());
		source_leave(source);
		return;
	}
	source->state = source->next == 0 ? SOURCE_START : SOURCE_RUNNING;
	source->fetched_ms = 0;
}

static void progress_fetched(struct tb_source *source)
{
	const struct place *place = &source->place;
	const bool copy_failed = source->copy_failed;
	struct progress progress;

	memcpy(&progress, source_page(source), sizeof(progress));
	if (!source_line(source, progress_verify(&progress, place->shape.epoch, place->shape.slots,
						 place->shape.capacity, place->checked,
						 place->progress_salt) == 0))
		return;
	source->copy_failed = false;
	pull_read_proven(source);
	if (source->state == SOURCE_START) {
		reader_start(source, &progress);
		return;
	}
	if (reader_look(source, &progress) || !copy_failed)
		return;
	if (source->next > source->head)
		notices_false(source);
	else
		reader_failed(source);
}

static void names_fetched(struct tb_source *source)
{
	struct place *place = &source->place;
	const uint32_t page = REGION_PAGE / DIRECTORY_ENTRY_BYTES;
	struct directory_entry entry;

	for (uint32_t i = 0; i < (place->view ? 1 : page); i++) {
		const uint32_t index = source->names_from + i;

		if (index >= place->shape.capacity)
			break;
		memcpy(&entry, source_page(source) + (size_t)i * sizeof(entry), sizeof(entry));
		if (!place->names[index][0] &&
		    directory_verify(&entry, index, place->directory_salt, place->names[index]) < 0)
			place->names[index][0] = '\0';
	}
	if (place->view || place->names[source->name_wanted][0])
		return;
	pull_read_drop(source); /* a record without a name is as good as torn */
	source->look = source->copy_failed = true;
}

void source_fetched(struct tb_source *source, enum fetch_kind kind, int status)
{
	source->page_under_way = false;
	if (source->state == SOURCE_DEAD || status < 0)
		return;
	if (kind == FETCH_HEADER)
		header_fetched(source);
	else if (kind == FETCH_PROGRESS)
		progress_fetched(source);
	else if (kind == FETCH_NAMES)
		names_fetched(source);
}

/* -- reading ------------------------------------------------------------------------------------
 */

/* Whether the old epoch was read as far as it goes: its writer may have died in the middle of the
 * line that would say how far that is. Where nothing was begun there is nothing to end. */
static bool source_drained(const struct tb_source *source)
{
	if (source->under_way > 0 || pull_read_holds(source))
		return false;
	return source->state == SOURCE_ENDED || !source->place.remote || source->next == 0 ||
	       source->invalid > SWITCH_TRIES || (source->next > source->head && !source->look);
}

/* Who had begun reads the new epoch from its oldest record; who had not begins there as was asked,
 * and is not told of the old one. */
static void source_switch(struct tb_source *source)
{
	const uint64_t old_epoch = source->place.shape.epoch;
	const uint64_t delivered = source->next - 1, head = source->head;
	const bool begun = source->next != 0;

	deliver_holes(source);
	place_close(source->subscription->subscriber, &source->place);
	source->place = source->successor;
	memset(&source->successor, 0, sizeof(source->successor));
	source->has_successor = source->armed = false;
	source->copy_failed = source->stale = false;
	source->look = true;
	source->next = begun ? 1 : 0;
	source->head = source->written = source->hint = source->notice_number = 0;
	source->batched = false;
	source->tries = source->idle = source->invalid = 0;
	pull_read_drop(source);
	source->state = SOURCE_HEADER; /* a handler that leaves, leaves the new epoch's join */
	if (begun)
		deliver_restart(source, old_epoch, delivered, head);
	if (!deliver_stopped(source))
		source_begin(source);
}

void source_settle(struct tb_source *source)
{
	const uint64_t now = clock_coarse_ms();

	if (source->under_way > 0 || now - source->fetched_ms < POLL_PAGE_MS)
		return;
	source->fetched_ms = now;
	if (source->state == SOURCE_HEADER)
		source_begin(source);
	else
		source_fetch(source, FETCH_PROGRESS, source->place.layout.progress,
			     sizeof(struct progress));
}

int source_poll(struct tb_source *source, int max)
{
	int count = 0;

	if (source->has_successor && source_drained(source)) {
		source_switch(source);
		return 0;
	}
	if (source->state == SOURCE_HEADER || source->state == SOURCE_START)
		source_settle(source);
	if (source->state == SOURCE_RUNNING)
		count = source->place.view ? pull_view(source, max) : pull_read(source, max);
	return count;
}
