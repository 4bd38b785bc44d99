/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls that change a subscription's list of instruments. */
#include <errno.h>
#include <string.h>

#include "bus/error.h"
#include "subscriber/choice.h"
#include "subscriber/glance.h"
#include "subscriber/name_list.h"
#include "subscriber/pull_watch.h"
#include "subscriber/state.h"
#include "tickbus/error.h"
#include "tickbus/subscriber.h"

static int list_check(const struct tb_subscription *subscription, const char *call,
		      const char *const *names, size_t count)
{
	int result;

	if (!subscription->list)
		return error_set(EINVAL,
				 "%s: found a subscription without a list, expected a subscription "
				 "that was made with names",
				 call);
	result = name_list_check(names, count);
	return result < 0 ? error_prefix(result, "%s: ", call) : 0;
}

static void judge_again(struct tb_source *source, uint32_t instrument)
{
	if (!choice_judge(source, instrument))
		pull_watch_forget(source->mapping.watch, instrument);
}

/* Judges the instruments of the changed names again, among those that were judged (CH1). */
static void names_judge(struct tb_source *source, const struct name_list *changed)
{
	const struct choice *choice = source->mapping.choice;
	uint64_t matched[NAME_LIST_WORDS] = { 0 };

	for (uint32_t i = 0; choice && i < choice->capacity; i++) {
		if (i % 64 == 0 && !(choice->chosen[i / 64] | choice->left[i / 64]))
			i += 63;
		else if ((choice_is_taken(choice, i) || choice_is_left(choice, i)) &&
			 name_list_match(changed, source->mapping.names[i], matched))
			judge_again(source, i);
	}
}

static void list_changed(struct tb_subscription *subscription, const struct name_list *changed)
{
	for (struct tb_source *s = subscription->sources; s; s = s->next_source) {
		choice_changed(subscription, s->mapping.choice);
		names_judge(s, changed);
		choice_changed(subscription, s->successor.choice);
	}
	glance_wake_all(subscription->subscriber); /* L-I3 */
}

/* Changes the list by `change`. A list of the changed names alone is made first: the call must not
 * fail halfway. */
static int names_change(struct tb_subscription *subscription, const char *const *names,
			size_t count,
			int (*change)(struct name_list *, const char *const *, size_t))
{
	struct name_list *changed;
	int result = name_list_open(&changed);

	if (result == 0)
		result = name_list_add(changed, names, count);
	if (result >= 0)
		result = change(subscription->list, names, count);
	if (result > 0)
		list_changed(subscription, changed);
	name_list_close(changed);
	return result;
}

/* Whether a joined topic has an instrument of this name. Else the reason of the last topic stands.
 */
static int required_check(const struct tb_subscription *subscription, const char *name)
{
	int result = error_set(ENOENT, "no joined topic has an instrument %s", name);

	for (const struct tb_source *s = subscription->sources; s && result < 0; s = s->next_source)
		result = tb_source_instrument(s, name);
	return result < 0 ? result : 0;
}

TB_API int tb_names_add(struct tb_subscription *subscription, const char *const *names,
			size_t count)
{
	int result;

	if (!subscription)
		return error_null("subscription");
	result = list_check(subscription, "tb_names_add", names, count);
	if (result == 0 && (subscription->options.flags & TB_NAMES_REQUIRED))
		for (size_t i = 0; i < count && result == 0; i++)
			if (!name_list_is_pattern(names[i]))
				result = required_check(subscription, names[i]);
	if (result < 0)
		return result;
	return names_change(subscription, names, count, name_list_add);
}

TB_API int tb_names_remove(struct tb_subscription *subscription, const char *const *names,
			   size_t count)
{
	int result;

	if (!subscription)
		return error_null("subscription");
	result = list_check(subscription, "tb_names_remove", names, count);
	if (result < 0)
		return result;
	result = names_change(subscription, names, count, name_list_remove);
	return result < 0 ? error_prefix(result, "tb_names_remove: ") : result;
}
