/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of completed READs. It takes at most as many from the link as it has room for. */
#include "subscriber/completions.h"

#include "bus/fabric.h"

#define TAKEN_MAX 16 /* at once */

struct tb_source *completions_source(struct tb_subscriber *subscriber, struct tag tag)
{
	struct tb_source *source =
		tag.slot < subscriber->topics_max ? subscriber->table[tag.slot] : NULL;

	if (source) {
		source->under_way--;
		subscriber->under_way--;
	}
	return source;
}

static void get_landed(struct tb_subscriber *subscriber, struct tag tag, int status)
{
	completions_source(subscriber, tag);
	subscriber->get.under_way--;
	subscriber->get.failed |= status < 0;
}

void completions_add(struct tb_subscriber *subscriber, const struct fabric_completion *done)
{
	struct completions *completions = &subscriber->completions;
	const unsigned int at = (completions->first + completions->count++) % COMPLETIONS_MAX;

	completions->done[at] = *done;
}

bool completions_reap(struct tb_subscriber *subscriber)
{
	const unsigned int room = COMPLETIONS_MAX - subscriber->completions.count;
	const unsigned int most = room < TAKEN_MAX ? room : TAKEN_MAX;
	struct fabric_completion done[TAKEN_MAX];
	int count;

	count = most > 0 ? subscriber->ops->reap(subscriber->link, done, most) : 0;
	for (int i = 0; i < count; i++) {
		const struct tag tag = tag_unpack(done[i].tag);

		if (tag.kind == READ_GET)
			get_landed(subscriber, tag, done[i].status);
		else
			completions_add(subscriber, &done[i]);
	}
	return count == TAKEN_MAX;
}

bool completions_next(struct tb_subscriber *subscriber, struct fabric_completion *done)
{
	struct completions *completions = &subscriber->completions;

	if (completions->count == 0)
		return false;
	*done = completions->done[completions->first];
	completions->first = (completions->first + 1) % COMPLETIONS_MAX;
	completions->count--;
	return true;
}
