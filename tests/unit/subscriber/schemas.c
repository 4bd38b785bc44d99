/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas that a subscriber learns: which it keeps, and how often it requests them. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

#include "subscriber/discovery.h"
#include "subscriber/schemas.h"
#include "subscriber/state.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"
#include "tests/unit/subscriber/net.h"

TestSuite(schemas, .init = net_enter, .fini = net_leave, .timeout = 60);

static bool schema_known(const struct tb_schema *schema)
{
	for (const struct schema_cache *c = subscriber->schemas; c; c = c->next)
		if (c->schema == schema)
			return true;
	return false;
}

static unsigned int schemas_kept(void)
{
	unsigned int count = 0;

	for (const struct schema_cache *c = subscriber->schemas; c; c = c->next)
		count++;
	return count;
}

/* Only schemas of topics that are read are kept. */
Test(schemas, schemas_of_refused_topics_are_forgotten)
{
	struct tb_subscription_options how = { .size = sizeof(how),
					       .on_record = notes_record,
					       .on_event = notes_event,
					       .user = &notes };
	struct tb_schema *wanted = scene_schema("x", 1, "- {name: x, type: u64, doc: d}\n");
	struct tb_subscription *subscription;
	char text[64];

	scene_topic(net.publisher, "t", 64, 0);
	net_read_on(false);
	how.schema = wanted;
	for (unsigned int i = 0; i < 8; i++) {
		struct tb_schema *unfit;

		snprintf(text, sizeof(text), "- {name: y%u, type: u64, doc: d}\n", i);
		unfit = scene_schema("y", 1, text);
		snprintf(text, sizeof(text), "u%u", i);
		net_topic(text, unfit);
		tb_schema_free(unfit);
		cr_assert_eq(tb_subscribe(subscriber, text, &how, &subscription), -EPROTO);
	}
	/* The last of them goes with the next pulse, which may have come. */
	cr_expect_leq(schemas_kept(), 2, "%u are kept", schemas_kept());
	cr_expect(schema_known(tb_source_schema(subscriber->table[0])));
	tb_schema_free(wanted);
}

/* The topics cannot be joined for now, and are requested with each pulse. */
Test(schemas, schema_is_requested_once_during_a_shortage)
{
	struct tb_schema *y = scene_schema("y", 1, "- {name: y, type: u64, doc: d}\n");
	unsigned int before;

	net_publisher_again(SCENE_HASTY_MS);
	scene_topic(net.publisher, "t", 64, 0);
	net_topic("u", y);
	tb_schema_free(y);
	subscriber = scene_subscriber("net", 0);
	net.landless = true;
	scene_subscribe(subscriber, "t*", TB_FROM_OLDEST, &notes);
	scene_subscribe(subscriber, "u*", TB_FROM_OLDEST, &notes);
	UNTIL(net.joins >= 4, 100); /* each topic, with each pulse */
	before = net.schemas;
	UNTIL(net.joins >= 16, 100);
	net.landless = false;
	UNTIL(net_joined(2), 100);
	cr_expect_eq(net.schemas, before, "%u schemas for %u joins", net.schemas, net.joins);
}

/* Even if schemas are endless and a shortage never ends. */
Test(schemas, endless_schemas_during_a_shortage_stay_bounded)
{
	const unsigned int count = SCHEMAS_KEPT + 8;
	char text[64];

	net_publisher_again(SCENE_HASTY_MS);
	for (unsigned int i = 0; i < count; i++) {
		struct tb_schema *own;

		snprintf(text, sizeof(text), "- {name: y%u, type: u64, doc: d}\n", i);
		own = scene_schema("y", 1, text);
		snprintf(text, sizeof(text), "t%u", i);
		net_topic(text, own);
		tb_schema_free(own);
	}
	subscriber = scene_subscriber("net", 0);
	net.landless = true;
	scene_subscribe(subscriber, "t*", TB_FROM_OLDEST, &notes);
	UNTIL(net.joins >= 2 * count, 100);
	cr_expect_leq(schemas_kept(), SCHEMAS_KEPT, "%u are kept", schemas_kept());
	net.landless = false;
	UNTIL(net_joined(count) && net_served(), 100);
	for (unsigned int i = 0; i < count; i++)
		cr_expect(schema_known(tb_source_schema(subscriber->table[i])));
}

Test(schemas, schema_of_next_epoch_is_kept_while_the_old_is_read)
{
	struct tb_schema *y = scene_schema("y", 1, "- {name: y, type: u64, doc: d}\n");
	struct tb_source *source;

	scene_publish(scene_topic(net.publisher, "t", 64, 0), 1, 60);
	source = net_read_on(true);
	tb_publisher_close(net.publisher);
	net.publisher = scene_publisher("shm");
	net_topic("t", y);
	tb_schema_free(y);
	cr_assert_eq(tb_poll(subscriber, 1), 1);
	net_wait_for_successor(source);
	cr_assert(source->has_successor && !notes.restarted, "%s", notes.text);
	source->subscription->discover = true;
	discovery_step(subscriber);
	cr_expect(schema_known(source->mapping.schema));
	cr_expect(schema_known(source->successor.schema));
	UNTIL(notes.restarted, 100);
	cr_expect_str_eq(tb_schema_name(tb_source_schema(source)), "y");
}
