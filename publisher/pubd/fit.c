/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/pubd/fit.h"

#include <assert.h>
#include <errno.h>
#include <time.h>

#include "bus/account.h"
#include "publisher/feeds/calendar/day.h"
#include "publisher/feeds/projection.h"
#include "publisher/feeds/framings/source_file.h"
#include "tickbus/error.h"

#define YEAR_MAX 2399 /* of day_begin */

static_assert(SETTINGS_DEFINITION - SETTINGS_QUOTE == (int)MARKET_DEFINITION - (int)MARKET_QUOTE &&
		      (int)MARKET_SELECTS == SETTINGS_DEFINITION,
	      "the same words in the same order");

enum market_select fit_select(const struct settings_topic *topic)
{
	return (enum market_select)(topic->select - SETTINGS_QUOTE);
}

struct synthetic_settings fit_exchange(const struct settings_feed *feed)
{
	return (struct synthetic_settings){
		.seed = feed->seed,
		.messages = feed->messages,
		.seconds = feed->seconds,
		.rate = feed->rate,
		.symbols = feed->symbols,
		.burst = feed->burst,
	};
}

/* Exchanges rest on Saturday and Sunday. Their other days of rest are not known here. */
static void next_weekday(struct tm *date)
{
	do {
		date->tm_mday++;
		timegm(date); /* sets month, year and weekday */
	} while (date->tm_wday == 0 || date->tm_wday == 6);
}

int fit_day(const struct settings_feed *feed, unsigned int number, struct feed_day *day)
{
	const struct tm first = { .tm_year = (int)feed->date.year - 1900,
				  .tm_mon = (int)feed->date.month - 1,
				  .tm_mday = (int)feed->date.day };

	struct tm date = first;

	while (number-- > 0) {
		next_weekday(&date);
		if (date.tm_year > YEAR_MAX - 1900) /* a synthetic exchange may run for centuries */
			date = first;
	}
	strftime(day->date, sizeof(day->date), "%Y-%m-%d", &date);
	return day_begin(day->date, feed->time_zone, &day->midnight_ns);
}

static bool topic_fits(const struct settings *settings, const struct settings_topic *topic,
		       FILE *errors)
{
	const char *select;
	struct projection projection;
	struct tb_schema *made;
	int result;

	if (!topic->select || !topic->schema || !topic->schema->schema)
		return true; /* reported already */
	select = market_selects[fit_select(topic)];
	result = tb_schema_load(&made, select);
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

/* Fills in the exchange's defaults, so that --print-effective shows them. */
static int exchange_resolve(struct settings_feed *feed)
{
	const struct synthetic_settings asked = fit_exchange(feed);
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
	struct feed_day day;
	int result = 0;

	if (feed->date.year && feed->time_zone)
		result = fit_day(feed, 0, &day);
	if (result == 0 && !feed->wrong && feed->type == SETTINGS_SYNTHETIC)
		result = exchange_resolve(feed);
	if (result < 0)
		fprintf(errors, "%s:%u:%u: feeds[%zu]: %s\n", settings->path, feed->line,
			feed->column, (size_t)(feed - settings->feeds), tb_error());
	return result == 0;
}

/* The first bytes of a file show whether a feed can read it. A file that cannot be opened is
 * reported already. */
static bool file_fits(const struct settings *settings, const struct settings_feed *feed,
		      FILE *errors)
{
	struct source *source;
	int result;

	if (feed->type != SETTINGS_ITCH50 || !feed->path)
		return true;
	result = source_file_open(&source, feed->path);
	source_close(source);
	if (result != -EBADMSG)
		return true;
	fprintf(errors, "%s:%u:%u: feeds[%zu].path: %s\n", settings->path, feed->path_line,
		feed->path_column, (size_t)(feed - settings->feeds), tb_error());
	return false;
}

static bool is_user(const char *name)
{
	uid_t user;

	return account_user(name, &user) == 0;
}

static bool is_group(const char *name)
{
	gid_t group;

	return account_group(name, &group) == 0;
}

static unsigned int accounts_wrong(const struct settings *settings,
				   const struct settings_list *list, const char *what,
				   bool (*is_one)(const char *name), FILE *errors)
{
	unsigned int wrong = 0;

	for (size_t i = 0; i < list->count; i++) {
		if (is_one(list->texts[i]))
			continue;
		wrong++;
		fprintf(errors,
			"%s:%u:%u: bus.access.%ss[%u]: found \"%s\", expected the name of a %s of "
			"this machine\n",
			settings->path, list->locations[i].line, list->locations[i].column, what,
			list->locations[i].index, list->texts[i], what);
	}
	return wrong;
}

unsigned int fit_check(struct settings *settings, FILE *errors)
{
	unsigned int wrong =
		accounts_wrong(settings, &settings->bus.users, "user", is_user, errors);

	wrong += accounts_wrong(settings, &settings->bus.groups, "group", is_group, errors);
	for (size_t t = 0; t < settings->topic_count; t++)
		wrong += !topic_fits(settings, &settings->topics[t], errors);
	for (size_t f = 0; f < settings->feed_count; f++) {
		wrong += !feed_fits(settings, &settings->feeds[f], errors);
		wrong += !file_fits(settings, &settings->feeds[f], errors);
	}
	return wrong;
}
