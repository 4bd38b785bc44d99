/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/pubd/fit.h"

#include "publisher/feeds/day.h"
#include "publisher/feeds/market.h"
#include "publisher/feeds/projection.h"
#include "publisher/feeds/synthetic.h"
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

static int midnight_fits(const struct settings_feed *feed)
{
	uint64_t midnight_ns;
	char date[32];

	snprintf(date, sizeof(date), "%04u-%02u-%02u", feed->date.year, feed->date.month,
		 feed->date.day);
	return day_begin(date, feed->time_zone, &midnight_ns);
}

/* Fills in what is left to the exchange, so that --print-effective shows it. */
static int exchange_fits(struct settings_feed *feed)
{
	const struct synthetic_settings asked = {
		.seed = feed->seed,
		.messages = feed->messages,
		.seconds = feed->seconds,
		.rate = feed->rate,
		.symbols = feed->symbols,
		.burst = feed->burst,
	};
	struct synthetic_settings exchange;
	int result = synthetic_resolve(&asked, &exchange);

	if (result < 0)
		return result;
	feed->rate = (uint32_t)exchange.rate; /* at most SYNTHETIC_RATE_MAX */
	feed->symbols = exchange.symbols;
	return 0;
}

static bool feed_fits(const struct settings *settings, struct settings_feed *feed, FILE *errors)
{
	int result = midnight_fits(feed);

	if (result == 0 && feed->type == SETTINGS_SYNTHETIC)
		result = exchange_fits(feed);
	if (result < 0)
		fprintf(errors, "%s:%u:%u: feeds[%zu]: %s\n", settings->path, feed->line,
			feed->column, (size_t)(feed - settings->feeds), tb_error());
	return result == 0;
}

bool fit_check(struct settings *settings, FILE *errors)
{
	bool good = true;

	for (size_t t = 0; t < settings->topic_count; t++)
		good &= topic_fits(settings, &settings->topics[t], errors);
	for (size_t f = 0; f < settings->feed_count; f++)
		good &= feed_fits(settings, &settings->feeds[f], errors);
	return good;
}
