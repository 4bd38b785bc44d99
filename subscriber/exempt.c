/* SPDX-License-Identifier: Apache-2.0 */
/* What a conflated subscription exempts: kinds of records, and topics by pattern. */
#include "subscriber/exempt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"
#include "bus/pattern.h"
#include "tickbus/record.h"

struct exempt {
	uint64_t kinds[EXEMPT_KIND_WORDS];
	size_t topic_count;
	char topics[][TB_PATTERN_MAX + 1];
};

static int check(const struct tb_subscription_options *options)
{
	int result = 0;

	for (size_t i = 0; i < options->exempt_kind_count; i++)
		if (options->exempt_kinds[i] == 0)
			return error_set(EINVAL, "subscription options: found exempt kind 0, "
						 "expected 1 to 255");
	for (size_t i = 0; result == 0 && i < options->exempt_topic_count; i++) {
		if (!options->exempt_topics[i])
			return error_set(EINVAL,
					 "subscription options: exempt topic %zu is NULL, "
					 "expected a pattern",
					 i + 1);
		result = pattern_check(options->exempt_topics[i]);
		if (result < 0)
			return error_prefix(result, "exempt topic %zu: ", i + 1);
	}
	return result;
}

int exempt_open(const struct tb_subscription_options *options, struct exempt **out)
{
	const size_t topics = options->exempt_topic_count;
	struct exempt *exempt;
	int result;

	*out = NULL;
	if (options->conflate_us == 0)
		return 0;
	result = check(options);
	if (result < 0)
		return result;
	exempt = calloc(1, sizeof(*exempt) + topics * sizeof(exempt->topics[0]));
	if (!exempt)
		return error_set(ENOMEM, "no memory for %zu exempt topics", topics);
	for (size_t i = 0; i < options->exempt_kind_count; i++)
		exempt->kinds[options->exempt_kinds[i] / 64] |= UINT64_C(1)
								<< options->exempt_kinds[i] % 64;
	for (size_t i = 0; i < topics; i++)
		strncpy(exempt->topics[i], options->exempt_topics[i], TB_PATTERN_MAX);
	exempt->topic_count = topics;
	*out = exempt;
	return 0;
}

void exempt_close(struct exempt *exempt)
{
	free(exempt);
}

const uint64_t *exempt_kinds(const struct exempt *exempt)
{
	return exempt->kinds;
}

bool exempt_has_topic(const struct exempt *exempt, const char *topic)
{
	for (size_t i = 0; i < exempt->topic_count; i++)
		if (pattern_match(exempt->topics[i], topic))
			return true;
	return false;
}
