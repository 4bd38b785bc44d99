/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/lossy_fabric.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus/address.h"
#include "bus/error.h"
#include "bus/fabric.h"
#include "tests/support/random.h"

#define LINKS_MAX 8
#define QUEUE     1024

struct datagram {
	size_t length;
	uint8_t bytes[LOSSY_BYTES];
};

/* A link's datagrams that have arrived; further datagrams are dropped. */
struct inbox {
	const struct link *link;
	bool deaf, receives;
	unsigned int first, count;
	struct datagram queue[QUEUE];
};

struct lossy_seen lossy_seen[LOSSY_SEEN];
uint64_t lossy_seen_count;

static struct fabric_ops lossy_ops;
static const struct fabric_ops *below;
static struct inbox *inboxes[LINKS_MAX];
static uint64_t draws;
static unsigned int lost_percent, lost_next, busy_next;

static struct inbox *inbox_of(const struct link *link)
{
	for (size_t i = 0; i < LINKS_MAX; i++)
		if (inboxes[i] && inboxes[i]->link == link)
			return inboxes[i];
	abort();
}

static void arrive(struct inbox *inbox, const void *bytes, size_t length)
{
	struct datagram *datagram = &inbox->queue[(inbox->first + inbox->count) % QUEUE];

	if (!inbox->receives || inbox->count == QUEUE)
		return;
	memcpy(datagram->bytes, bytes, length);
	datagram->length = length;
	inbox->count++;
}

/* -- publisher ----------------------------------------------------------------------------------
 */

static void lossy_notices(const struct listener *listener, const struct sockaddr_storage *where,
			  struct fabric_notices *notices)
{
	(void)listener;
	(void)where;
	*notices = (struct fabric_notices){ .kind = FABRIC_NOTICES_UDP, .bytes = LOSSY_BYTES };
	if (address_parse_group("239.1.1.1:7472", &notices->group) < 0)
		abort();
}

static int lossy_listen(struct listener **out, const struct fabric_listen *listen,
			const struct listener_calls *calls, void *user)
{
	int result = below->listen(out, listen, calls, user);

	if (result == 0)
		(*out)->ops = &lossy_ops;
	return result;
}

static int lossy_announcer_open(struct listener *listener, const struct sockaddr_storage *where,
				size_t bytes, struct announcer **out)
{
	(void)listener;
	(void)where;
	(void)bytes;
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return error_set(ENOMEM, "no memory");
	(*out)->ops = &lossy_ops;
	return 0;
}

static void lossy_announcer_close(struct announcer *announcer)
{
	free(announcer);
}

static bool taken(unsigned int *count)
{
	if (*count == 0)
		return false;
	(*count)--;
	return true;
}

static int lossy_announce(struct announcer *announcer, const void *bytes, size_t length)
{
	struct lossy_seen *seen = &lossy_seen[lossy_seen_count % LOSSY_SEEN];

	(void)announcer;
	if (taken(&busy_next))
		return -EAGAIN;
	memcpy(seen->bytes, bytes, length);
	seen->length = length;
	lossy_seen_count++;
	if (taken(&lost_next))
		return 0;
	for (size_t i = 0; i < LINKS_MAX; i++)
		if (inboxes[i] && random_draw(&draws) % 100 >= lost_percent)
			arrive(inboxes[i], bytes, length);
	return 0;
}

/* -- subscriber ---------------------------------------------------------------------------------
 */

/* The name, without what follows a comma. */
static int lossy_identity(const char *address, char text[FABRIC_IDENTITY_BYTES])
{
	snprintf(text, FABRIC_IDENTITY_BYTES, "%.*s", (int)strcspn(address, ","), address);
	return 0;
}

static int lossy_connect(struct link **out, const char *address, const void *hello, size_t bytes,
			 const struct link_calls *calls, void *user)
{
	const char *knob = strchr(address, ',');
	struct inbox *inbox;
	char name[FABRIC_IDENTITY_BYTES];
	size_t i = 0;
	int result;

	lossy_identity(address, name);
	result = below->connect(out, name, hello, bytes, calls, user);
	if (result < 0)
		return result;
	(*out)->ops = &lossy_ops;
	while (i < LINKS_MAX && inboxes[i])
		i++;
	inbox = i < LINKS_MAX ? calloc(1, sizeof(*inbox)) : NULL;
	if (!inbox)
		abort();
	inbox->link = *out;
	inbox->deaf = knob;
	inboxes[i] = inbox;
	return 0;
}

static void lossy_link_close(struct link *link)
{
	for (size_t i = 0; i < LINKS_MAX; i++)
		if (link && inboxes[i] && inboxes[i]->link == link) {
			free(inboxes[i]);
			inboxes[i] = NULL;
		}
	below->link_close(link);
}

static int lossy_receive(struct link *link, const struct fabric_notices *notices)
{
	struct inbox *inbox = inbox_of(link);

	(void)notices;
	if (inbox->deaf)
		return error_set(ENOTSUP, "notices: not wanted");
	inbox->receives = true;
	return 0;
}

static void lossy_receive_end(struct link *link, const struct fabric_notices *notices)
{
	(void)notices;
	inbox_of(link)->receives = false;
}

static size_t lossy_datagram(struct link *link, void *datagram, size_t room)
{
	struct inbox *inbox = inbox_of(link);
	const struct datagram *next = &inbox->queue[inbox->first % QUEUE];

	if (inbox->count == 0 || next->length > room)
		return 0;
	memcpy(datagram, next->bytes, next->length);
	inbox->first++;
	inbox->count--;
	return next->length;
}

void lossy_lose(unsigned int percent)
{
	lost_percent = percent;
}

void lossy_lose_next(unsigned int count)
{
	lost_next = count;
}

void lossy_busy_next(unsigned int count)
{
	busy_next = count;
}

void lossy_forge(const void *datagram, size_t bytes)
{
	for (size_t i = 0; i < LINKS_MAX; i++)
		if (inboxes[i])
			arrive(inboxes[i], datagram, bytes);
}

void lossy_add(uint64_t seed)
{
	const char *rest;

	draws = seed;
	below = fabric_find("bytewise:", &rest);
	if (!below)
		abort();
	lossy_ops = *below;
	lossy_ops.scheme = "lossy";
	lossy_ops.listen = lossy_listen;
	lossy_ops.identity = lossy_identity;
	lossy_ops.connect = lossy_connect;
	lossy_ops.link_close = lossy_link_close;
	lossy_ops.notices = lossy_notices;
	lossy_ops.announcer_open = lossy_announcer_open;
	lossy_ops.announcer_close = lossy_announcer_close;
	lossy_ops.announce = lossy_announce;
	lossy_ops.receive = lossy_receive;
	lossy_ops.receive_end = lossy_receive_end;
	lossy_ops.datagram = lossy_datagram;
	if (fabric_add(&lossy_ops) < 0)
		abort();
}
