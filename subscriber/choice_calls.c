/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls that change a subscription's list of instruments. */
#include <errno.h>
#include <string.h>

#include "bus/error.h"
#include "subscriber/choice.h"
#include "subscriber/glance.h"
#include "subscriber/name_list.h"
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

/* Every topic judges its instruments again. */
static void list_changed(struct tb_subscription *subscription)
{
	for (struct tb_source *s = subscription->sources; s; s = s->next_source) {
		choice_restart(subscription, s->mapping.choice);
		choice_restart(subscription, s->successor.choice);
	}
	glance_wake_all(subscription->subscriber); /* L-I3 */
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
	int result = list_check(subscription, "tb_names_add", names, count);

	if (result == 0 && (subscription->options.flags & TB_NAMES_REQUIRED))
		for (size_t i = 0; i < count && result == 0; i++)
			if (!name_list_is_pattern(names[i]))
				result = required_check(subscription, names[i]);
	if (result < 0)
		return result;
	result = name_list_add(subscription->list, names, count);
	if (result > 0)
		list_changed(subscription);
	return result;
}

TB_API int tb_names_remove(struct tb_subscription *subscription, const char *const *names,
			   size_t count)
{
	int result = list_check(subscription, "tb_names_remove", names, count);

	if (result < 0)
		return result;
	result = name_list_remove(subscription->list, names, count);
	if (result > 0)
		list_changed(subscription);
	return result < 0 ? error_prefix(result, "tb_names_remove: ") : result;
}
