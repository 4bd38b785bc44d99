/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/fault/fault_reads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus/clock.h"
#include "bus/error.h"
#include "bus/fault/fault_link.h"
#include "bus/fault/fault_trouble.h"

#define LATE_NS      UINT64_C(1000000) /* the longest delay */
#define TWIN_ALIGNED 64
#define UNITS        3 /* of a torn copy: 1, 8 or 64 bytes */

static struct fault_link *link_of(struct link *base)
{
	return (struct fault_link *)base;
}

static struct fault_remote *remote_of(struct remote *base)
{
	return (struct fault_remote *)base;
}

/* -- regions and landings ----------------------------------------------------------------------
 */

int fault_remote_open(struct link *base, struct fabric_key key, uint64_t bytes, struct remote **out)
{
	struct fault_link *link = link_of(base);
	struct fault_remote *remote = calloc(1, sizeof(*remote));
	int result;

	*out = NULL;
	if (!remote)
		return error_set(ENOMEM, "memory handed over: no memory");
	remote->base = (struct remote){ .ops = base->ops, .link = base, .bytes = bytes };
	result = link->ops->remote_open(link->below, key, bytes, &remote->below);
	if (result == 0 && link->welcoming && link->chance.billionths[FAULT_FREEZE] > 0)
		result = fault_page_open(&remote->page, bytes);
	if (result < 0)
		fault_remote_close(&remote->base);
	else
		*out = &remote->base;
	return result;
}

/* Regions have no view, and are opened for each connection. */
bool fault_remote_keep(struct link *base, struct remote *remote)
{
	(void)base, (void)remote;
	return false;
}

void fault_remote_close(struct remote *base)
{
	struct fault_remote *remote = remote_of(base);

	if (!remote)
		return;
	if (remote->below)
		link_of(base->link)->ops->remote_close(remote->below);
	fault_page_close(&remote->page);
	free(remote);
}

const void *fault_view(const struct remote *remote)
{
	(void)remote;
	return NULL;
}

void *fault_landing(struct link *base, size_t bytes)
{
	struct fault_link *link = link_of(base);
	struct fault_landing *landing = calloc(1, sizeof(*landing));

	if (!landing) {
		error_set(ENOMEM, "fault: no memory for a landing");
		errno = ENOMEM;
		return NULL;
	}
	landing->bytes = bytes;
	if (link->chance.billionths[FAULT_TEAR] > 0)
		landing->twin = (bytes + TWIN_ALIGNED - 1) / TWIN_ALIGNED * TWIN_ALIGNED;
	landing->memory = link->ops->landing(link->below, bytes + landing->twin);
	if (!landing->memory) {
		free(landing);
		return NULL;
	}
	landing->next = link->reads.landings;
	link->reads.landings = landing;
	return landing->memory;
}

void fault_landing_free(struct link *base, void *memory, size_t bytes)
{
	struct fault_link *link = link_of(base);
	struct fault_landing **place = &link->reads.landings;

	while (*place && (*place)->memory != memory)
		place = &(*place)->next;
	if (*place) {
		struct fault_landing *landing = *place;

		*place = landing->next;
		link->ops->landing_free(link->below, memory, bytes + landing->twin);
		free(landing);
	}
}

static uint8_t *twin_of(const struct fault_link *link, const uint8_t *into)
{
	for (const struct fault_landing *l = link->reads.landings; l; l = l->next)
		if (into >= l->memory && into < l->memory + l->bytes)
			return l->memory + l->twin + (into - l->memory);
	return NULL;
}

/* -- posting -----------------------------------------------------------------------------------
 */

unsigned int fault_depth(const struct link *base)
{
	const struct fault_link *link = (const struct fault_link *)base;
	const unsigned int depth = link->ops->depth(link->below);

	return depth < FAULT_DEPTH ? depth : FAULT_DEPTH;
}

static int post(struct fault_link *link, const struct fault_read *read, void *into)
{
	const struct fabric_read below = { .remote = remote_of(read->read.remote)->below,
					   .offset = read->read.offset,
					   .bytes = read->read.bytes,
					   .into = into,
					   .tag = (uint64_t)(read - link->reads.read) };

	return link->ops->read(link->below, &below, 1);
}

static uint64_t delayed_ns(struct fault_link *link, enum fault_kind kind)
{
	return clock_ns() + 1 + fault_chance_below(&link->chance, kind, LATE_NS);
}

/* Returns what the fabric below returns for this READ. */
static int read_take(struct fault_link *link, const struct fabric_read *wanted)
{
	struct fault_read *read = link->reads.read;
	int result;

	while (read->step != FAULT_FREE)
		read++;
	*read = (struct fault_read){ .read = *wanted };
	if (fault_chance_met(&link->chance, FAULT_TEAR))
		read->twin = twin_of(link, wanted->into);
	read->late = fault_chance_met(&link->chance, FAULT_DELAY);
	read->fails = fault_chance_met(&link->chance, FAULT_FAIL);
	result = post(link, read, read->twin ? read->twin : wanted->into);
	if (result != 1)
		return result;
	read->step = FAULT_READING;
	link->reads.count++;
	fault_page_asked(link, &remote_of(wanted->remote)->page);
	fault_trouble(link);
	return 1;
}

int fault_read(struct link *base, const struct fabric_read *reads, unsigned int count)
{
	struct fault_link *link = link_of(base);
	const unsigned int depth = fault_depth(base);
	unsigned int taken = 0;

	if (link->lost || link->broken)
		return error_set(ENOTCONN, "not connected");
	while (taken < count && link->reads.count < depth) {
		const int result = link->lost ? 0 : read_take(link, &reads[taken]);

		if (result < 1)
			return taken > 0 ? (int)taken : result;
		taken++;
	}
	return (int)taken;
}

/* -- completing --------------------------------------------------------------------------------
 */

/* Makes the newer copy a mix of both. Returns whether it differs from both. */
static bool mix(struct fault_chance *chance, uint8_t *newer, const uint8_t *older, uint32_t bytes)
{
	const uint32_t unit = 1u << 3 * fault_chance_below(chance, FAULT_TEAR, UNITS);
	bool has_older = false, has_newer = false;
	uint64_t bits = 0;
	unsigned int left = 0;

	for (uint32_t at = 0; at < bytes; at += unit) {
		const uint32_t size = bytes - at < unit ? bytes - at : unit;

		if (left == 0) {
			bits = fault_chance_bits(chance, FAULT_TEAR);
			left = 64;
		}
		if (memcmp(newer + at, older + at, size) != 0) {
			has_older |= bits & 1;
			has_newer |= !(bits & 1);
			if (bits & 1)
				memcpy(newer + at, older + at, size);
		}
		bits >>= 1;
		left--;
	}
	return has_older && has_newer;
}

static void read_done(struct fault_link *link, struct fault_read *read, int status)
{
	read->step = FAULT_DONE;
	read->status = status;
	read->due_ns = 0;
	if (status < 0 || link->lost)
		return;
	if (read->fails) {
		fault_counted(FAULT_FAIL);
		read->status = -EIO;
	}
	if (read->late) {
		fault_counted(FAULT_DELAY);
		read->due_ns = delayed_ns(link, FAULT_DELAY);
	}
}

/* A READ below has completed. */
static void read_landed(struct fault_link *link, struct fault_read *read, int status)
{
	struct fault_remote *remote = remote_of(read->read.remote);

	if (status < 0) {
		read_done(link, read, status);
		return;
	}
	if (read->step == FAULT_READING && read->twin) {
		read->step = FAULT_BETWEEN;
		read->due_ns = delayed_ns(link, FAULT_TEAR);
		return;
	}
	if (!fault_page_landed(link, &remote->page, read->read.offset, read->read.into,
			       read->read.bytes) &&
	    read->twin && mix(&link->chance, read->read.into, read->twin, read->read.bytes))
		fault_counted(FAULT_TEAR);
	read_done(link, read, 0);
}

static void below_reap(struct fault_link *link)
{
	struct fabric_completion done[FAULT_DEPTH];
	const int count = link->ops->reap(link->below, done, FAULT_DEPTH);

	for (int i = 0; i < count; i++)
		if (done[i].tag < FAULT_DEPTH)
			read_landed(link, &link->reads.read[done[i].tag], done[i].status);
}

static void read_repeat(struct fault_link *link, struct fault_read *read)
{
	const int result = post(link, read, read->read.into);

	if (result == 1)
		read->step = FAULT_REPEATED;
	else if (result < 0)
		read_done(link, read, result);
}

/* Whether the READ completes now (F1). */
static bool read_is_due(struct fault_link *link, struct fault_read *read)
{
	const bool over = link->lost || link->broken;

	if (over && (read->step == FAULT_BETWEEN || read->step == FAULT_DONE)) {
		read->step = FAULT_DONE;
		read->status = -ECONNRESET;
		return true;
	}
	if (read->due_ns != 0 && clock_ns() < read->due_ns)
		return false;
	if (read->step == FAULT_BETWEEN)
		read_repeat(link, read);
	return read->step == FAULT_DONE;
}

int fault_reap(struct link *base, struct fabric_completion *completions, unsigned int max)
{
	struct fault_link *link = link_of(base);
	struct fault_reads *reads = &link->reads;
	int count = 0;

	if (reads->count == 0 || fault_is_stalled(link))
		return 0;
	below_reap(link);
	for (unsigned int i = 0; i < FAULT_DEPTH && (unsigned int)count < max; i++) {
		struct fault_read *read = &reads->read[i];

		if (read->step == FAULT_FREE || !read_is_due(link, read))
			continue;
		completions[count++] = (struct fabric_completion){ read->read.tag, read->status };
		read->step = FAULT_FREE;
		reads->count--;
	}
	return count;
}

bool fault_reads_held(const struct fault_link *link)
{
	for (unsigned int i = 0; i < FAULT_DEPTH && link->reads.count > 0; i++)
		if (link->reads.read[i].step == FAULT_BETWEEN ||
		    link->reads.read[i].step == FAULT_DONE)
			return true;
	return false;
}

void fault_reads_break(struct fault_link *link)
{
	if (link->reads.count > 0)
		below_reap(link);
	for (unsigned int i = 0; i < FAULT_DEPTH; i++)
		if (link->reads.read[i].step != FAULT_FREE)
			link->reads.read[i].step = FAULT_DONE;
}
