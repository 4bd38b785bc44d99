/* SPDX-License-Identifier: Apache-2.0 */
/* What goes out over the connection: READs are posted, control messages are sent.
 *
 * U1  The bus page shows a topic's epoch, and so does its grant. The topic's memory is READ for
 *     half of bus_page_kept_ms() after the request of an entry or a grant that showed it. A READ
 *     of memory that is gone would end the connection, and all its topics with it. After it was
 *     away, a reader looks at the page first. A program may be away between all its looks. After
 *     two looks that came too long after the look before, it reads all the same.
 * U2  READs of topics and entries leave one place of the queue to the READ of the pulse. If topics
 *     fill all other places, a single READ of entries takes that place, and a READ of the pulse
 *     that comes due follows it.
 * U3  READs of topics wait in a list that goes out with one doorbell. It goes out before the first
 *     record or value of a turn is delivered, and at the end of the turn. So READs are under way
 *     while handlers run, and a turn rings a bounded number of times. A READ that waits has its
 *     place in the queue. Handlers may run until the list goes out. A topic may be left meanwhile,
 *     or its memory may be gone by then (U1). A READ of it could end the connection. So it
 *     completes with an error instead. A READ that the fabric refuses also completes with an error.
 *     The READs behind it go out. */
#include "subscriber/connection.h"

#include <errno.h>
#include <string.h>

#include "bus/bus_page.h"
#include "bus/clock.h"
#include "bus/counters.h"
#include "bus/error.h"
#include "bus/fabric.h"
#include "subscriber/completions.h"
#include "subscriber/deliver.h"
#include "subscriber/tag.h"

#define RARE_LOOKS 2

/* How old a look may be that allows READs of an epoch's memory. */
static uint32_t look_ms_max(const struct tb_source *source)
{
	return bus_page_kept_ms(source->subscription->subscriber->welcome.stale_ms) / 2;
}

bool connection_may_read(const struct tb_source *source)
{
	const struct mapping *mapping = &source->mapping;

	return mapping->view || mapping->shown_rarely >= RARE_LOOKS ||
	       clock_coarse_ms() - mapping->shown_ms < look_ms_max(source);
}

static void mapping_shown(const struct tb_source *source, struct mapping *mapping, uint64_t epoch,
			  uint64_t asked_ms)
{
	if (epoch != mapping->shape.epoch) {
		mapping->shown_rarely = 0;
		return;
	}
	if (asked_ms < mapping->shown_ms)
		return; /* requested before the grant */
	if (asked_ms - mapping->shown_ms < look_ms_max(source))
		mapping->shown_rarely = 0;
	else
		mapping->shown_rarely++;
	mapping->shown_ms = asked_ms;
}

void connection_shown(struct tb_source *source, uint64_t epoch, uint64_t asked_ms)
{
	mapping_shown(source, &source->mapping, epoch, asked_ms);
	mapping_shown(source, &source->successor, epoch, asked_ms);
}

/* Places of the queue beside those of outstanding READs and the pulse's own (U2). A READ that has
 * completed keeps its place until it is processed. So the kept completions never outnumber the
 * places. A READ for a value takes the place of any READ that has completed: `free` of them. */
static unsigned int room_of(const struct tb_subscriber *subscriber, unsigned int free)
{
	const unsigned int depth = subscriber->ops->depth(subscriber->link);
	const unsigned int taken = subscriber->under_way + subscriber->entries_under_way + 1 - free;

	return depth > taken ? depth - taken : 0;
}

unsigned int connection_entries_room(const struct tb_subscriber *subscriber)
{
	const unsigned int room = room_of(subscriber, 0);

	return room > 0 ? room : 1;
}

static void reads_begin(struct tb_source *source, unsigned int count)
{
	source->under_way += count;
	source->subscription->subscriber->under_way += count;
	source->subscription->counters[SUBSCRIPTION_READS] += count;
}

/* -- the list ----------------------------------------------------------------------------------
 */

int connection_read(struct tb_source *source, const struct fabric_read *reads, unsigned int count)
{
	struct tb_subscriber *subscriber = source->subscription->subscriber;
	const unsigned int room = room_of(subscriber, 0);

	if (!connection_may_read(source))
		return 0;
	if (count > room)
		count = room;
	memcpy(&subscriber->waiting[subscriber->waiting_count], reads, count * sizeof(*reads));
	subscriber->waiting_count += count;
	reads_begin(source, count);
	return (int)count;
}

/* A READ that was not posted. */
static void read_fail(struct tb_subscriber *subscriber, const struct fabric_read *read, int code)
{
	const struct tb_source *source = subscriber->table[tag_unpack(read->tag).slot];

	source->subscription->counters[SUBSCRIPTION_READS]--;
	completions_add(subscriber,
			&(struct fabric_completion){ .tag = read->tag, .status = code });
}

/* Keeps the READs that may go out (U3). */
static void waiting_judge(struct tb_subscriber *subscriber)
{
	struct fabric_read *reads = subscriber->waiting;
	unsigned int kept = 0;

	for (unsigned int i = 0; i < subscriber->waiting_count; i++) {
		const struct tb_source *source = subscriber->table[tag_unpack(reads[i].tag).slot];

		if (!deliver_stopped(source) && connection_may_read(source))
			reads[kept++] = reads[i];
		else
			read_fail(subscriber, &reads[i], -ECANCELED);
	}
	subscriber->waiting_count = kept;
}

void connection_post(struct tb_subscriber *subscriber)
{
	struct fabric_read *reads = subscriber->waiting;
	unsigned int at = 0;
	int posted = 1;

	waiting_judge(subscriber);
	while (at < subscriber->waiting_count && posted != 0) {
		posted = subscriber->ops->read(subscriber->link, &reads[at],
					       subscriber->waiting_count - at);
		if (posted >= 0)
			at += (unsigned int)posted;
		else
			read_fail(subscriber, &reads[at++], posted);
	}
	subscriber->waiting_count -= at;
	memmove(reads, &reads[at], subscriber->waiting_count * sizeof(*reads));
}

void connection_deliver(struct tb_subscriber *subscriber)
{
	if (!subscriber->delivers)
		connection_post(subscriber);
	subscriber->delivers = true;
}

void connection_drop(struct tb_subscriber *subscriber)
{
	for (unsigned int i = 0; i < subscriber->waiting_count; i++)
		read_fail(subscriber, &subscriber->waiting[i], -ECONNRESET);
	subscriber->waiting_count = 0;
}

/* -- READs that are waited for ------------------------------------------------------------------
 */

static int read_post(struct tb_source *source, const struct fabric_read *reads, unsigned int count)
{
	struct tb_subscriber *subscriber = source->subscription->subscriber;
	unsigned int room;
	int posted;

	connection_post(subscriber);
	room = room_of(subscriber, subscriber->completions.count);
	if (count > room)
		count = room;
	posted = count > 0 ? subscriber->ops->read(subscriber->link, reads, count) : 0;
	if (posted > 0)
		reads_begin(source, (unsigned int)posted);
	return posted;
}

int connection_read_now(struct tb_source *source, const struct fabric_read *reads,
			unsigned int count)
{
	return connection_may_read(source) ? read_post(source, reads, count) : 0;
}

int connection_read_page(struct tb_source *source, const struct fabric_read *read)
{
	return read_post(source, read, 1);
}

int connection_send(struct tb_subscriber *subscriber, const struct control_message *message)
{
	uint8_t bytes[FABRIC_MESSAGE_BYTES];
	const size_t length = control_encode(message, bytes);

	if (!subscriber->link)
		return error_set(ENOTCONN, "not connected to %s", subscriber->address);
	return subscriber->ops->link_send(subscriber->link, bytes, length);
}
