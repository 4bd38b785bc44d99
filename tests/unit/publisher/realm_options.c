/* SPDX-License-Identifier: Apache-2.0 */
/* The realms of the options: invalid realms are refused with a message. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/scene.h"

TestSuite(options, .init = scene_enter, .fini = scene_leave);

static const uint8_t one[TB_TICKET_BYTES] = { 1 }, two[TB_TICKET_BYTES] = { 2 };
static const uint8_t zeros[TB_TICKET_BYTES];
static const char *const all[] = { ">", "a.*" }, *const wrong[] = { "a", "A" };

static int bus_open(const struct tb_realm *realms, size_t count)
{
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "b",
						      .exit_wait_ms = UINT32_MAX,
						      .realms = realms,
						      .realm_count = count };
	struct tb_publisher *publisher;
	const int result = tb_publisher_open(&publisher, &options);

	if (result == 0)
		tb_publisher_close(publisher);
	else
		cr_expect_null(publisher);
	return result;
}

#define REALM sizeof(struct tb_realm)
#define DESK                                                                                       \
	{                                                                                          \
		REALM, "desk", one, all, 2, 0                                                      \
	}
#define WHAT "publisher options: realms"
#define NAME "expected 1 to 63 letters, digits, '.', '_' and '-', not beginning with '.'"

Test(options, wrong_realms_are_refused)
{
	static const struct {
		struct tb_realm realms[2];
		const char *text;
	} cases[] = {
		{ { DESK, { REALM, "a/b", two, all, 1, 0 } },
		  WHAT "[1].name: found \"a/b\", " NAME },
		{ { DESK, { REALM, NULL, two, all, 1, 0 } }, WHAT "[1].name: found \"\", " NAME },
		{ { DESK, { REALM, "desk", two, all, 1, 0 } },
		  WHAT "[1]: found the name desk again, expected each name once" },
		{ { DESK, { REALM, "risk", one, all, 1, 0 } },
		  WHAT "[1]: found the ticket of realm desk again, expected each ticket once" },
		{ { DESK, { REALM, "risk", NULL, all, 1, 0 } },
		  WHAT "[1]: found risk without a ticket, expected a ticket for each realm but "
		       "anonymous" },
		{ { DESK, { REALM, "anonymous", two, all, 1, 0 } },
		  WHAT "[1]: found anonymous with a ticket, expected no ticket: it is the realm "
		       "of clients without a ticket" },
		{ { DESK, { REALM, "risk", zeros, all, 1, 0 } },
		  WHAT "[1]: found a ticket of zeros, expected random bytes" },
		{ { DESK, { REALM, "risk", two, all, 0, 0 } },
		  WHAT "[1]: found 0 patterns of topics, expected 1 to 256" },
		{ { DESK, { REALM, "risk", two, all, 257, 0 } },
		  WHAT "[1]: found 257 patterns of topics, expected 1 to 256" },
		{ { DESK, { REALM, "risk", two, NULL, 1, 0 } },
		  WHAT "[1]: found 0 patterns of topics, expected 1 to 256" },
		{ { DESK, { REALM, "risk", two, wrong, 2, 0 } },
		  WHAT "[1].topics[1]: topic pattern: found \"A\", expected parts of a-z, 0-9, "
		       "'_', '-', '*' (or '>' as the last part) with single dots between" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_expect_eq(bus_open(cases[i].realms, 2), -EINVAL, "%zu", i);
		cr_expect_str_eq(tb_error(), cases[i].text, "%s", tb_error());
	}
	cr_expect_eq(bus_open(NULL, 1), -EINVAL);
	cr_expect_str_eq(tb_error(), WHAT ": found NULL, expected 1 as realm_count says");
}

/* The realm of a program with a later header. */
struct later {
	struct tb_realm realm;
	void *more;
};

Test(options, longer_realm_structures_are_accepted)
{
	struct later later[] = { { .realm = { sizeof(later[0]), "desk", one, all, 2, 0 } },
				 { .realm = { sizeof(later[0]), "risk", two, all, 2, 0 } } };

	cr_expect_eq(bus_open(&later[0].realm, 2), 0, "%s", tb_error());
	later[1].realm.name = "a/b";
	cr_expect_eq(bus_open(&later[0].realm, 2), -EINVAL);
	cr_expect_str_eq(tb_error(), WHAT "[1].name: found \"a/b\", " NAME);
}

Test(options, realms_of_a_wrong_size_are_refused)
{
	static const size_t sizes[] = { 0, 1, REALM - alignof(struct tb_realm), REALM + 1,
					SIZE_MAX };
	struct tb_realm realms[] = { DESK, { REALM, "risk", two, all, 2, 0 } };
	char text[128];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		realms[0].size = sizes[i];
		realms[1].size = REALM;
		cr_expect_eq(bus_open(realms, 2), -EINVAL);
		snprintf(text, sizeof(text), WHAT "[0]: found size %zu, expected %zu or more",
			 sizes[i], REALM);
		cr_expect_str_eq(tb_error(), text);
		realms[0].size = REALM;
		realms[1].size = sizes[i];
		cr_expect_eq(bus_open(realms, 2), -EINVAL);
		snprintf(text, sizeof(text),
			 WHAT "[1]: found size %zu, expected %zu as in realms[0]", sizes[i], REALM);
		cr_expect_str_eq(tb_error(), text);
	}
}

Test(options, at_most_32_realms_are_accepted)
{
	struct tb_realm realms[33];
	uint8_t tickets[33][TB_TICKET_BYTES] = { 0 };
	char names[33][8];

	for (size_t i = 0; i < 33; i++) {
		snprintf(names[i], sizeof(names[i]), "r%zu", i);
		tickets[i][i % TB_TICKET_BYTES] = (uint8_t)(1 + i);
		realms[i] = (struct tb_realm){ REALM, names[i], tickets[i], all, 2, 0 };
	}
	cr_expect_eq(bus_open(realms, 32), 0, "%s", tb_error());
	cr_expect_eq(bus_open(realms, 33), -EINVAL);
	cr_expect_str_eq(tb_error(), WHAT ": found 33, expected at most 32");
}
