/* SPDX-License-Identifier: Apache-2.0 */
/* What clients can make a publisher log. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "publisher/log.h"
#include "tests/support/clock.h"

#define MOST 1000 /* lines at once */

static struct tb_publisher publisher;
static struct endpoint endpoint;
static unsigned int lines, reports;
static char last[256];

static void take(void *user, enum tb_log_level level, const char *text)
{
	(void)user;
	(void)level;
	if (strstr(text, "more lines about clients were left out"))
		reports++;
	else
		lines++;
	snprintf(last, sizeof(last), "%s", text);
}

static void enter_log(void)
{
	publisher.log = take;
	endpoint.publisher = &publisher;
	clock_stop();
	endpoint_log_second(&endpoint);
}

TestSuite(client_lines, .init = enter_log);

static void say(unsigned int times)
{
	while (times-- > 0)
		endpoint_log(&endpoint, "a client");
}

Test(client_lines, burst_is_logged_and_the_rest_is_a_number)
{
	say(MOST);
	cr_expect_eq(lines, MOST);
	cr_expect_eq(reports, 0);
	say(7);
	cr_expect_eq(lines, MOST);
	clock_pass(1000);
	endpoint_log_second(&endpoint);
	cr_expect_eq(reports, 1);
	cr_expect_str_eq(last, "7 more lines about clients were left out");
	endpoint_log_second(&endpoint);
	endpoint_log_rest(&endpoint);
	cr_expect_eq(reports, 1, "they are reported once");
}

Test(client_lines, flood_that_goes_on_is_one_line_and_a_number_per_second)
{
	say(MOST);
	for (unsigned int second = 1; second <= 100; second++) {
		clock_pass(1000);
		say(500);
		cr_expect_eq(lines, MOST + second);
		cr_expect_eq(reports, second - 1);
	}
}

Test(client_lines, room_comes_back_while_clients_are_quiet)
{
	say(2 * MOST);
	clock_pass(60 * 1000);
	say(MOST);
	cr_expect_eq(lines, MOST + 60);
	clock_pass(24 * 3600 * 1000);
	say(2 * MOST);
	cr_expect_eq(lines, MOST + 60 + MOST);
}
