/* SPDX-License-Identifier: Apache-2.0 */
/* Which instruments of a topic a subscription has chosen.
 *
 * CH1  A name never changes within an epoch (N-I2). So an instrument is judged once, by a bit. A
 *      change of the list judges the instruments of the changed names again, before its call
 *      returns. So it holds from the next record, and no other instrument waits for it.
 * CH2  What an entry of the list has matched stays true within the epoch: a directory only grows.
 *      The bit of an id that no entry has any more is void at once, before the id is used again. */
#include "subscriber/choice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"

static size_t words_of(uint32_t bits)
{
	return ((size_t)bits + 63) / 64;
}

int choice_open(const struct tb_subscription *subscription, const struct region_shape *shape,
		struct choice **out)
{
	struct choice *choice;

	*out = NULL;
	if (!subscription->list)
		return 0;
	choice = calloc(1, sizeof(*choice));
	if (!choice)
		return error_set(ENOMEM, "no memory for chosen instruments");
	choice->capacity = shape->capacity;
	choice->chosen = calloc(words_of(shape->capacity), sizeof(*choice->chosen));
	choice->left = calloc(words_of(shape->capacity), sizeof(*choice->left));
	if (!choice->chosen || !choice->left) {
		choice_close(choice);
		return error_set(ENOMEM, "no memory for %u chosen instruments", shape->capacity);
	}
	choice_report_begins(subscription, choice);
	*out = choice;
	return 0;
}

void choice_close(struct choice *choice)
{
	if (!choice)
		return;
	free(choice->chosen);
	free(choice->left);
	free(choice);
}

void choice_changed(const struct tb_subscription *subscription, struct choice *choice)
{
	if (!choice)
		return;
	for (uint32_t i = 0; i < NAME_LIST_WORDS; i++) {
		choice->settled[i] &= subscription->list->ids[i]; /* CH2 */
		choice->asked[i] &= subscription->list->ids[i];
	}
	choice->report = true;
}

void choice_report_begins(const struct tb_subscription *subscription, struct choice *choice)
{
	memcpy(choice->asked, subscription->list->ids, sizeof(choice->asked));
	choice->report = false;
	choice->reporting = choice->line_wanted = true;
}

bool choice_judge(const struct tb_source *source, uint32_t instrument)
{
	struct choice *choice = source->mapping.choice;
	const uint64_t bit = UINT64_C(1) << instrument % 64;
	const bool found = name_list_match(source->subscription->list,
					   source->mapping.names[instrument], choice->settled);

	choice->chosen[instrument / 64] &= ~bit;
	choice->left[instrument / 64] &= ~bit;
	if (found)
		choice->chosen[instrument / 64] |= bit;
	else
		choice->left[instrument / 64] |= bit;
	choice->found |= found;
	return found;
}
