/* SPDX-License-Identifier: Apache-2.0 */
/* Inspecting a bus over a network that loses requests: the link's descriptor stays silent, and the
 * link reports the missing answer when it is polled. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bus/error.h"
#include "bus/fabric.h"
#include "tickbus/inspect.h"

#define LOOKS      2 /* polls of a link before it ends */
#define ANSWERED   3 /* the request that is answered */
#define TIMEOUT_MS 10000

struct lossy_link {
	struct link base;
	struct link_calls calls;
	void *user;
	int fd, number, looks;
};

static int requests, links;

static int lossy_connect(struct link **link, const char *address, const void *hello, size_t bytes,
			 const struct link_calls *calls, void *user)
{
	struct lossy_link *made = calloc(1, sizeof(*made));

	(void)address, (void)hello, (void)bytes;
	made->calls = *calls;
	made->user = user;
	made->fd = eventfd(0, EFD_CLOEXEC);
	made->number = ++requests;
	links++;
	*link = &made->base;
	return 0;
}

static int lossy_poll(struct link *base)
{
	struct lossy_link *link = (struct lossy_link *)base;

	if (++link->looks < LOOKS)
		return 0;
	if (link->number < ANSWERED)
		link->calls.gone(link->user, ETIMEDOUT, "no answer from there");
	else
		link->calls.gone(link->user, EACCES, "go away");
	return 1;
}

static int lossy_fd(const struct link *link)
{
	return ((const struct lossy_link *)link)->fd;
}

static int lossy_sleep(struct link *link)
{
	(void)link;
	return 0;
}

static int lossy_reap(struct link *link, struct fabric_completion *done, unsigned int max)
{
	(void)link, (void)done, (void)max;
	return 0;
}

static void lossy_settle(struct link *link)
{
	(void)link;
}

static void lossy_break(struct link *link)
{
	(void)link;
}

static void lossy_close(struct link *link)
{
	if (!link)
		return;
	close(((struct lossy_link *)link)->fd);
	links--;
	free(link);
}

static int lossy_identity(const char *address, char text[FABRIC_IDENTITY_BYTES])
{
	snprintf(text, FABRIC_IDENTITY_BYTES, "%s", address);
	return 0;
}

static struct fabric_ops lossy = { .scheme = "lossy",
				   .network = true,
				   .identity = lossy_identity,
				   .connect = lossy_connect,
				   .link_poll = lossy_poll,
				   .link_fd = lossy_fd,
				   .sleep = lossy_sleep,
				   .reap = lossy_reap,
				   .link_break = lossy_break,
				   .link_settle = lossy_settle,
				   .link_close = lossy_close };

Test(inspect, unanswered_request_is_repeated_until_the_timeout)
{
	const struct tb_inspect_options options = { .size = sizeof(options),
						    .address = "lossy:there",
						    .timeout_ms = TIMEOUT_MS };

	cr_assert_eq(fabric_add(&lossy), 0);
	cr_expect_eq(tb_inspect_topics(&options, NULL, NULL, NULL, NULL), -EACCES);
	cr_expect_str_eq(tb_error(), "lossy:there: go away");
	cr_expect_eq(requests, ANSWERED);
	cr_expect_eq(links, 0);
}
