/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/subscriber/late.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "bus/fabric.h"
#include "bus/shm/shm.h"
#include "subscriber/discovery.h"
#include "subscriber/state.h"
#include "subscriber/tag.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"

static struct fabric_ops late_ops;
struct late late;
struct tb_topic *topic;
struct tb_subscriber *subscriber;
struct tb_subscription *subscription;
struct tb_source *source;
struct notes notes;

static enum read_kind kind_of(const struct fabric_read *read)
{
	return (enum read_kind)(read->tag & 0xff);
}

static void note(char slots, char line, const struct fabric_read *read)
{
	const size_t length = strlen(late.story);
	const enum read_kind kind = kind_of(read);

	if ((kind == READ_SLOTS || kind == READ_PROGRESS) && length < sizeof(late.story) - 1)
		late.story[length] = kind == READ_SLOTS ? slots : line;
}

void late_land(unsigned int i, int status)
{
	const struct fabric_read read = late.held[i];
	const volatile uint8_t *from =
		(const volatile uint8_t *)shm_view(read.remote) + read.offset;

	for (uint32_t at = 0; at < read.bytes && status == 0; at++)
		((uint8_t *)read.into)[at] = from[at];
	late.done[late.done_count++] =
		(struct fabric_completion){ .tag = read.tag, .status = status };
	note('S', 'L', &read);
	late.count--;
	memmove(&late.held[i], &late.held[i + 1], (late.count - i) * sizeof(read));
}

static int late_read(struct link *link, const struct fabric_read *reads, unsigned int count)
{
	unsigned int taken = 0;

	(void)link;
	late.lists++;
	for (; taken < count && late.count < late.places; taken++) {
		const struct fabric_read *read = &reads[taken];
		const char *into = read->into;

		if (late.refused > 0 && --late.refused == 0) {
			late.refused += taken > 0;
			return taken > 0 ? (int)taken : -ERANGE;
		}
		for (unsigned int j = 0; j < late.count; j++) {
			const char *busy = late.held[j].into;

			cr_assert(into + read->bytes <= busy || busy + late.held[j].bytes <= into,
				  "posted where another READ is still to land");
		}
		cr_assert_lt(late.count, HELD_MAX);
		cr_assert(read->bytes > 0 && read->offset <= read->remote->bytes &&
				  read->bytes <= read->remote->bytes - read->offset,
			  "posted beyond the region");
		memset(read->into, 0xa5, read->bytes);
		late.held[late.count++] = *read;
		note('s', 'l', read);
		late.entries += kind_of(read) == READ_ENTRIES;
		if ((kind_of(read) == READ_PULSE || kind_of(read) == READ_ENTRIES) && !late.silent)
			late_land(late.count - 1, late.page_fails ? -EIO : 0);
	}
	return (int)taken;
}

static bool is_held(enum read_kind kind)
{
	return kind == READ_SLOTS || (late.images_held && kind == READ_VALUES) ||
	       (late.page_held && (kind == READ_PROGRESS || kind == READ_NAMES));
}

static int late_reap(struct link *link, struct fabric_completion *done, unsigned int max)
{
	unsigned int count;

	(void)link;
	for (unsigned int i = 0; i < late.count;)
		if (!late.silent && (late.at_once || !is_held(kind_of(&late.held[i]))))
			late_land(i, 0);
		else
			i++;
	count = late.done_count < max ? late.done_count : max;
	memcpy(done, late.done, count * sizeof(*done));
	late.done_count -= count;
	memmove(late.done, late.done + count, late.done_count * sizeof(*done));
	return (int)count;
}

static unsigned int late_depth(const struct link *link)
{
	(void)link;
	return late.places;
}

static void late_break(struct link *link)
{
	late.breaks++;
	while (late.count > 0)
		late_land(late.count - 1, -ECONNRESET);
	shm_link_break(link);
}

static int late_poll(struct link *link)
{
	late.polls++;
	return shm_link_poll(link);
}

static enum link_state late_state(const struct link *link)
{
	const bool cut = late.cut;

	late.cut = false;
	return cut ? LINK_GONE : shm_link_state(link);
}

static const void *late_view(const struct remote *remote)
{
	(void)remote;
	return NULL;
}

static int late_sleep(struct link *link)
{
	return late.count > 0 || late.done_count > 0 || shm_sleep(link);
}

/* Memory that is used again would hold what landed before. */
static void late_landing_free(struct link *link, void *landing, size_t bytes)
{
	memset(landing, 0, bytes);
	shm_ops.landing_free(link, landing, bytes);
}

static void late_add(void)
{
	late.places = HELD_MAX;
	late_ops = shm_ops;
	late_ops.scheme = "late";
	late_ops.network = true;
	late_ops.link_poll = late_poll;
	late_ops.link_state = late_state;
	late_ops.link_break = late_break;
	late_ops.landing_free = late_landing_free;
	late_ops.view = late_view;
	late_ops.depth = late_depth;
	late_ops.read = late_read;
	late_ops.reap = late_reap;
	late_ops.sleep = late_sleep;
	cr_assert_eq(fabric_add(&late_ops), 0);
}

void late_enter(void)
{
	scene_enter();
	late_add();
	late.publisher = scene_publisher("shm");
}

void late_leave(void)
{
	tb_subscriber_close(subscriber);
	tb_publisher_close(late.publisher);
	notes_free(&notes);
	scene_leave();
}

void late_read_on(uint32_t slots, uint64_t records, uint32_t flags)
{
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = "late:test",
						       .connect_ms = deadline_ms(),
						       .batch_bytes = BATCH_BYTES,
						       .read_bytes = SLOTS_OF_READ * 64 };
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .on_event = notes_event,
						     .user = &notes,
						     .from = TB_FROM_OLDEST,
						     .flags = flags };

	topic = scene_topic(late.publisher, "t", slots, 0);
	scene_publish(topic, 1, records);
	cr_assert_eq(tb_subscriber_open(&subscriber, &options), 0, "%s", tb_error());
	cr_assert_eq(tb_subscribe(subscriber, "t", &how, &subscription), 0, "%s", tb_error());
	source = subscription->sources;
	cr_assert_eq(source->halves, 2);
}

void late_poll_once(void)
{
	cr_assert_geq(tb_poll(subscriber, 1000), 0, "%s", tb_error());
}

unsigned int late_held(enum read_kind kind)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < late.count; i++)
		count += kind_of(&late.held[i]) == kind;
	return count;
}

unsigned int late_find(enum read_kind kind)
{
	unsigned int at = 0;

	while (at < late.count && kind_of(&late.held[at]) != kind)
		at++;
	return at;
}

unsigned int late_slots_held(void)
{
	return late_held(READ_SLOTS);
}

void late_two_read(uint32_t flags)
{
	late_read_on(4096, 2, flags);
	late.at_once = true;
	UNTIL(notes.records == 2);
	late.at_once = false;
}

void late_both_under_way(uint64_t records, uint32_t flags)
{
	late_two_read(flags);
	scene_publish(topic, 3, records);
	source->look = true;
	UNTIL(late_slots_held() == 2 * READS_OF_HALF);
	cr_assert_eq(late.count, 2 * READS_OF_HALF);
}

void late_land_half(unsigned int first)
{
	for (unsigned int i = 0; i < READS_OF_HALF; i++)
		late_land(first, 0);
}

uint64_t late_counted(enum subscription_counter counter)
{
	uint64_t value[SUBSCRIPTION_COUNTERS];

	tb_subscription_counters(subscription, value, SUBSCRIPTION_COUNTERS);
	return value[counter];
}

void late_expect_all(uint64_t records)
{
	late.at_once = true;
	UNTIL(notes.last == records);
	cr_expect_eq(notes.records, records);
	cr_expect(notes.lost == 0 && notes.wrong == 0);
}

bool late_is_discovered(void)
{
	return subscriber->pulse_known && !discovery_waits(subscriber);
}
