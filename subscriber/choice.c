/* SPDX-License-Identifier: Apache-2.0 */
/* Which instruments of a topic a subscription has chosen.
 *
 * CH1  A name never changes within an epoch (N-I2). So an instrument is judged once for each state
 *      of the list, by a bit. A change of the list voids all bits before its call returns: it holds
 *      from the next record.
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
	choice->line_wanted = choice->report = choice->changed = true;
	if (!choice->chosen || !choice->left) {
		choice_close(choice);
		return error_set(ENOMEM, "no memory for %u chosen instruments", shape->capacity);
	}
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

void choice_restart(const struct tb_subscription *subscription, struct choice *choice)
{
	if (!choice)
		return;
	memset(choice->chosen, 0, words_of(choice->capacity) * sizeof(*choice->chosen));
	memset(choice->left, 0, words_of(choice->capacity) * sizeof(*choice->left));
	for (uint32_t i = 0; i < NAME_LIST_WORDS; i++)
		choice->settled[i] &= subscription->list->ids[i]; /* CH2 */
	choice->at = 0;
	choice->tries = 0;
	choice->line_wanted = choice->report = choice->changed = true;
}

bool choice_judge(const struct tb_source *source, uint32_t instrument)
{
	struct choice *choice = source->mapping.choice;
	const uint64_t bit = UINT64_C(1) << instrument % 64;
	const bool found = name_list_match(source->subscription->list,
					   source->mapping.names[instrument], choice->settled);

	if (found)
		choice->chosen[instrument / 64] |= bit;
	else
		choice->left[instrument / 64] |= bit;
	return found;
}
