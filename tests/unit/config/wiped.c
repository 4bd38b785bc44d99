/* SPDX-License-Identifier: Apache-2.0 */
/* Freed memory holds no ticket: neither that of settings, nor that of a publisher and a subscriber.
 * free is wrapped, so that each block is checked. */
#include <criterion/criterion.h>
#include <malloc.h>
#include <stdlib.h>

#include "config/settings.h"
#include "tests/support/scene.h"
#include "tests/unit/config/config.h"

static uint8_t ticket[TB_TICKET_BYTES];
static unsigned int found;

void __real_free(void *block);
void __wrap_free(void *block);

void __wrap_free(void *block)
{
	if (block && memmem(block, malloc_usable_size(block), ticket, sizeof(ticket)))
		found++;
	__real_free(block);
}

static void enter(void)
{
	scene_enter();
	folder_enter();
	memset(ticket, 0xcc, sizeof(ticket));
	mallopt(M_PERTURB, 0); /* MALLOC_PERTURB_=51 fills new blocks with the same bytes */
}

static void leave(void)
{
	folder_leave();
	scene_leave();
}

TestSuite(wiped, .init = enter, .fini = leave, .timeout = 60);

Test(wiped, leftover_ticket_in_memory_is_found)
{
	char *volatile block = calloc(1, 100); /* the compiler must not know what is freed */

	cr_assert_not_null(block);
	memcpy(block + 50, ticket, sizeof(ticket));
	free(block);
	cr_expect_eq(found, 1);
}

Test(wiped, settings_wipe_tickets)
{
	static const char text[] =
		"bus: { name: b }\n"
		"schemas: [ quote ]\n"
		"feeds: [ { name: f, type: synthetic } ]\n"
		"topics: [ { name: t, feed: f, select: quote, schema: quote } ]\n"
		"realms: [ { name: r, ticket_file: a.ticket, topics: [ t ] } ]\n";
	struct settings *settings;

	ticket_write("a.ticket", 'c', 0600);
	file_write("t.yaml", text, sizeof(text) - 1);
	cr_assert_eq(settings_load(&settings, "t.yaml", stderr), 0);
	cr_assert_arr_eq(settings->realms[0].ticket.bytes, ticket, sizeof(ticket));
	settings_free(settings);
	cr_expect_eq(found, 0);
}

Test(wiped, publisher_and_subscriber_wipe_tickets)
{
	static const uint8_t other[TB_TICKET_BYTES] = { 1 };
	static const char *const all = ">";
	const struct tb_realm realm = { sizeof(realm), .name = "r", .ticket = ticket,
					.topics = &all, .topic_count = 1 };
	const struct tb_publisher_options offered = { .size = sizeof(offered),
						      .name = "test",
						      .exit_wait_ms = UINT32_MAX,
						      .realms = &realm,
						      .realm_count = 1 };
	const struct tb_subscriber_options asked = {
		.size = sizeof(asked), .address = "shm:test", .connect_ms = 20000, .ticket = ticket
	};
	struct tb_publisher *publisher;
	struct tb_subscriber *subscriber;

	cr_assert_eq(tb_publisher_open(&publisher, &offered), 0, "%s", tb_error());
	cr_assert_eq(tb_subscriber_open(&subscriber, &asked), 0, "%s", tb_error());
	cr_assert_eq(tb_publisher_ticket(publisher, "r", other, 60000), 1, "%s", tb_error());
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
	cr_expect_eq(found, 0);
}
