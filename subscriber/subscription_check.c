/* SPDX-License-Identifier: Apache-2.0 */
/* What options of a subscription may be, and which of them exclude each other. */
#include "subscriber/subscription_check.h"

#include <errno.h>

#include "bus/bounds.h"
#include "bus/error.h"
#include "bus/pattern.h"
#include "subscriber/image.h"

#define FLAGS (TB_WAIT | TB_STRICT | TB_VALUES | TB_WATCH | TB_MERGE | TB_NAMES_REQUIRED)

static int refuse(const char *found, const char *expected)
{
	return error_set(EINVAL, "subscription options: found %s, expected %s", found, expected);
}

static int bound_check(const char *what, uint64_t found, uint64_t most)
{
	if (found <= most)
		return 0;
	return error_set(EINVAL, "subscription options: %s: found %llu, expected at most %llu",
			 what, (unsigned long long)found, (unsigned long long)most);
}

static bool conflates(const struct tb_subscription_options *options)
{
	return options->conflate_us != 0;
}

static int handlers_check(const struct tb_subscription_options *options)
{
	if (!options->on_record && !options->on_batch && !(options->flags & TB_VALUES))
		return refuse("no handler of records", "on_record or on_batch");
	if (options->on_record && options->on_batch)
		return refuse("both on_record and on_batch", "a single handler of records");
	return 0;
}

static int ranges_check(const struct tb_subscription_options *options)
{
	int result;

	if (options->flags & ~FLAGS)
		return error_set(EINVAL,
				 "subscription options: found flags 0x%x, expected only 0x%x",
				 options->flags, FLAGS);
	if (options->from > TB_FROM_LAST)
		return error_set(EINVAL, "subscription options: found from %d, expected 0 to %d",
				 (int)options->from, TB_FROM_LAST);
	if (options->gap > TB_GAP_IMAGE)
		return error_set(EINVAL, "subscription options: found gap %d, expected 0 to %d",
				 (int)options->gap, TB_GAP_IMAGE);
	if (options->from == TB_FROM_SEQUENCE && options->sequence == 0)
		return refuse("sequence 0", "1 or more");
	if (options->from == TB_FROM_TIME && options->time_ns == 0)
		return refuse("time_ns 0 with TB_FROM_TIME", "a time in nanoseconds since 1970");
	result = bound_check("back", options->back, BOUND_BACK_MAX);
	if (result == 0)
		result = bound_check("look_us", options->look_us, BOUND_LOOK_US_MAX);
	if (result == 0 && options->conflate_us != TB_CONFLATE_POLL)
		result = bound_check("conflate_us", options->conflate_us, BOUND_CONFLATE_US_MAX);
	if (result == 0)
		result = bound_check("name_count", options->name_count, BOUND_NAMES_MAX);
	if (result == 0)
		result = bound_check("exempt_kind_count", options->exempt_kind_count, 256);
	if (result == 0)
		result = bound_check("exempt_topic_count", options->exempt_topic_count,
				     BOUND_EXEMPT_TOPICS_MAX);
	return result;
}

/* A list that has no use, or lacks its elements. */
static int lists_check(const struct tb_subscription_options *options)
{
	if (options->name_count > 0 && !options->names)
		return refuse("name_count without names", "both");
	if ((options->flags & TB_NAMES_REQUIRED) && !options->names)
		return refuse("TB_NAMES_REQUIRED without names", "both");
	if ((options->flags & TB_WATCH) && !options->names)
		return refuse("TB_WATCH without names", "the instruments to watch");
	if ((options->flags & TB_VALUES) && options->names)
		return refuse("names with TB_VALUES", "TB_WATCH: TB_VALUES delivers nothing");
	if (options->exempt_kind_count > 0 && !options->exempt_kinds)
		return refuse("exempt_kind_count without exempt_kinds", "both");
	if (options->exempt_topic_count > 0 && !options->exempt_topics)
		return refuse("exempt_topic_count without exempt_topics", "both");
	if (!conflates(options) && (options->exempt_kind_count || options->exempt_topic_count))
		return refuse("exempt kinds or topics without conflate_us", "both");
	if (options->look_us && !(options->flags & TB_WATCH))
		return refuse("look_us without TB_WATCH", "both");
	return 0;
}

/* Programs that read values have no position to begin at, and no gaps. */
static int values_check(const struct tb_subscription_options *options)
{
	const char *const flag = options->flags & TB_WATCH ? "TB_WATCH" : "TB_VALUES";

	if (!(options->flags & (TB_VALUES | TB_WATCH)))
		return 0;
	if ((options->flags & TB_VALUES) && (options->flags & TB_WATCH))
		return refuse("TB_VALUES with TB_WATCH", "one of them");
	if (options->flags & TB_STRICT)
		return error_set(EINVAL,
				 "subscription options: found %s with TB_STRICT, expected "
				 "one of them: only its own check proves a value",
				 flag);
	if (options->from != TB_FROM_NEWEST)
		return error_set(EINVAL,
				 "subscription options: found from %d with %s, expected "
				 "TB_FROM_NEWEST",
				 (int)options->from, flag);
	if (options->gap != TB_GAP_OLDEST)
		return error_set(EINVAL,
				 "subscription options: found gap %d with %s, expected "
				 "TB_GAP_OLDEST",
				 (int)options->gap, flag);
	return 0;
}

static int merge_check(const struct tb_subscription_options *options)
{
	if (!(options->flags & TB_MERGE))
		return 0;
	if (options->on_batch)
		return refuse("on_batch with TB_MERGE", "on_record: a merge has no batches");
	if (options->flags & (TB_STRICT | TB_VALUES | TB_WATCH))
		return refuse("TB_MERGE with TB_STRICT, TB_VALUES or TB_WATCH", "TB_MERGE alone");
	if (options->gap == TB_GAP_IMAGE)
		return refuse("TB_GAP_IMAGE with TB_MERGE", "TB_GAP_OLDEST or TB_GAP_NEWEST");
	if (options->from == TB_FROM_SEQUENCE)
		return refuse("TB_FROM_SEQUENCE with TB_MERGE", "another start, as TB_FROM_TIME");
	return 0;
}

static int conflation_check(const struct tb_subscription_options *options)
{
	if (!conflates(options))
		return 0;
	if (options->on_batch)
		return refuse("on_batch with conflate_us", "on_record");
	if (options->flags & (TB_STRICT | TB_VALUES | TB_WATCH | TB_MERGE))
		return refuse("conflate_us with TB_STRICT, TB_VALUES, TB_WATCH or TB_MERGE",
			      "conflate_us alone");
	if (options->gap != TB_GAP_OLDEST)
		return refuse("a gap policy with conflate_us",
			      "TB_GAP_OLDEST: after a gap the values are read in any case");
	return 0;
}

int subscription_check(const char *pattern, const struct tb_subscription_options *options)
{
	if (!options || options->size < sizeof(*options))
		return error_set(EINVAL,
				 "subscription options: found size %zu, expected %zu or more",
				 options ? options->size : 0, sizeof(*options));
	if (handlers_check(options) < 0 || ranges_check(options) < 0 || lists_check(options) < 0)
		return -EINVAL;
	if (!pattern)
		return error_set(EINVAL, "subscription: found no pattern");
	if ((options->flags & TB_STRICT) && image_is_wanted(options))
		return error_set(EINVAL,
				 "subscription options: found TB_STRICT with an image, expected "
				 "one of them: no progress line bounds a stored value");
	if (values_check(options) < 0 || merge_check(options) < 0 || conflation_check(options) < 0)
		return -EINVAL;
	return pattern_check(pattern);
}
