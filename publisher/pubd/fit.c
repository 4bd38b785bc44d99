/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/pubd/fit.h"

#include "publisher/feeds/day.h"
#include "publisher/feeds/market.h"
#include "publisher/feeds/projection.h"
#include "tickbus/error.h"

static bool topic_fits(const struct settings *settings, const struct settings_topic *topic,
		       FILE *errors)
{
	const char *select = market_selects[topic->select - SETTINGS_QUOTE];
	struct projection projection;
	struct tb_schema *made;
	int result = tb_schema_load(&made, select);

	if (result == 0)
		result = projection_open(&projection, made, topic->schema->schema);
	tb_schema_free(made);
	if (result == 0) {
		projection_close(&projection);
		return true;
	}
	fprintf(errors, "%s:%u:%u: topics[%zu].schema: schema %s does not fit select %s: %s\n",
		settings->path, topic->line, topic->column, (size_t)(topic - settings->topics),
		topic->schema->name, select, tb_error());
	return false;
}

bool fit_check(const struct settings *settings, FILE *errors)
{
	bool good = true;

	for (size_t t = 0; t < settings->topic_count; t++)
		if (!topic_fits(settings, &settings->topics[t], errors))
			good = false;
	for (size_t f = 0; f < settings->feed_count; f++) {
		const struct settings_feed *feed = &settings->feeds[f];
		uint64_t midnight_ns;
		char date[32];

		snprintf(date, sizeof(date), "%04u-%02u-%02u", feed->date.year, feed->date.month,
			 feed->date.day);
		if (day_begin(date, feed->time_zone, &midnight_ns) < 0) {
			fprintf(errors, "%s: feeds[%zu]: %s\n", settings->path, f, tb_error());
			good = false;
		}
	}
	return good;
}
