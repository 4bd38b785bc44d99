/* SPDX-License-Identifier: Apache-2.0 */
/* The multicast group that a listener is given, seen by a fabric that does nothing else. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "bus/error.h"
#include "bus/fabric.h"
#include "tickbus/publisher.h"

static struct sockaddr_storage group;

static int look(struct listener **listener, const struct fabric_listen *how,
		const struct listener_calls *calls, void *user)
{
	(void)calls;
	(void)user;
	*listener = NULL;
	group = how->notices.group;
	return error_set(ENODEV, "it has seen enough");
}

static const struct fabric_ops looking = { .scheme = "looking", .network = true, .listen = look };

/* The group that a bus of this name has at an address, in words. */
static void group_of(const char *name, const char *address, const char *multicast,
		     char words[INET6_ADDRSTRLEN])
{
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = name,
						      .listen = &address,
						      .listen_count = 1,
						      .multicast = multicast };
	struct tb_publisher *publisher;

	cr_assert_eq(fabric_add(&looking), 0);
	cr_assert_eq(tb_publisher_open(&publisher, &options), -ENODEV, "%s", tb_error());
	cr_assert_eq(((struct sockaddr_in *)&group)->sin_port, htons(7472));
	cr_assert_not_null(inet_ntop(group.ss_family,
				     group.ss_family == AF_INET
					     ? (void *)&((struct sockaddr_in *)&group)->sin_addr
					     : (void *)&((struct sockaddr_in6 *)&group)->sin6_addr,
				     words, INET6_ADDRSTRLEN));
}

/* Of two addresses the same for one name, another for another. */
static void expect_made(const char *address, const char *other, const char *begins)
{
	char words[INET6_ADDRSTRLEN], more[INET6_ADDRSTRLEN];

	group_of("equities", address, NULL, words);
	cr_expect_eq(strncmp(words, begins, strlen(begins)), 0, "%s", words);
	group_of("equities", other, NULL, more);
	cr_expect_str_eq(words, more);
	group_of("futures", address, NULL, more);
	cr_expect_str_neq(words, more);
}

Test(groups, made_of_a_name_are_of_the_kind_of_the_address)
{
	expect_made("looking:10.9.0.1:7471", "looking:10.9.0.2:7471,hop_limit=2", "239.77.");
	expect_made("looking:[fd00::1]:7471", "looking:[fd00::2]:7471,reads=4", "ff15::");
}

Test(groups, that_are_given_are_taken_as_they_are)
{
	char words[INET6_ADDRSTRLEN];

	group_of("b", "looking:[fd00::1]:7471", "239.1.2.3:7472", words);
	cr_expect_str_eq(words, "239.1.2.3");
	group_of("b", "looking:10.9.0.1:7471", "[ff02::9]:7472", words);
	cr_expect_str_eq(words, "ff02::9");
}
