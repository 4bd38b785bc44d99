/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded values equal the file, defaults equal the manual, and printed settings read back equal. */
#include "config.h"

#include <time.h>

#include "config/settings.h"

#define ODD_PATH "odd \"name\" \\ \xc3\xa9 #: 'x'\tend"

static const char full[] =
	"bus:\n"
	"  name: equities\n"
	"  listen: [ 'shm:', 'shm:other.name', 'rdma:10.9.0.1:7471' ]\n"
	"  access: { users: [ md, \"a\\\"b\\\\c\\td\\ne \xc3\xa9\" ], groups: [ trading, 'null' ] "
	"}\n"
	"  multicast: '239.1.2.3:7472'\n"
	"  notice: udp\n"
	"  notice_bytes: 512\n"
	"  stale_ms: 250\n"
	"  exit_wait_ms: 0\n"
	"  topics_max: 7\n"
	"  subscribers_max: 9\n"
	"  subscribers_per_host: 4\n"
	"  ticket_overlap_s: 30\n"
	"  cpu: 3\n"
	"  numa: 1\n"
	"log: { file: var/pubd.log, level: debug }\n"
	"schemas: [ quote, mine.yaml, trade ]\n"
	"feeds:\n"
	"  - name: nasdaq\n"
	"    type: itch50\n"
	"    path: \"odd \\\"name\\\" \\\\ \xc3\xa9 #: 'x'\\tend\"\n"
	"    date: 2019-12-30\n"
	"    time_zone: UTC\n"
	"    from: 09:30:01\n"
	"    speed: 10.5x\n"
	"    start: { subscribers: 3 }\n"
	"    at_end: restart\n"
	"    incomplete: fail\n"
	"    cpu: 2\n"
	"    wait: spin\n"
	"  - { name: made, type: synthetic, seed: 9223372036854775807, symbols: 12, messages: 77,\n"
	"      rate: 5, burst: 11, date: 2024-02-29, time_zone: Europe/Zurich, speed: realtime,\n"
	"      at_end: exit, wait: sleep }\n"
	"  - { name: timed, type: synthetic, seconds: 60 }\n"
	"topics:\n"
	"  - { name: nasdaq.quote, feed: nasdaq, select: quote, schema: quote, slots: 128,\n"
	"      instruments: 5, last_value: false, checked: false }\n"
	"  - { name: made.trade, feed: made, select: imbalance, schema: mine,\n"
	"      multicast: '239.1.2.4:7472' }\n"
	"  - { name: timed.trade, feed: timed, select: trade, schema: trade }\n"
	"realms:\n"
	"  - { name: desk, ticket_file: desk.ticket, topics: [ 'nasdaq.*', made.trade ] }\n"
	"  - { name: anonymous, topics: [ '>' ] }\n";

static void enter(void)
{
	static const char mine[] = "name: mine\nversion: 1\nfields:\n"
				   "- { name: x, type: u64, doc: d }\n";

	unsetenv("TZDIR");
	folder_enter();
	file_write(ODD_PATH, "xy", 2);
	file_write("mine.yaml", mine, sizeof(mine) - 1);
	ticket_write("desk.ticket", 'f', 0400);
}

TestSuite(values, .init = enter, .fini = folder_leave);

static struct settings *load(const char *text)
{
	struct settings *settings;

	file_write("t.yaml", text, strlen(text));
	cr_assert_eq(settings_load(&settings, "t.yaml", stderr), 0, "%s", text);
	return settings;
}

static char *print(const struct settings *settings)
{
	char *text = NULL;
	size_t length = 0;
	FILE *stream = open_memstream(&text, &length);

	settings_print(settings, stream);
	fclose(stream);
	return text;
}

static void expect_path(const char *found, const char *name)
{
	char expected[256];

	snprintf(expected, sizeof(expected), "%s/%s", folder, name);
	cr_expect_str_eq(found, expected);
}

static void expect_full_bus(const struct settings *settings)
{
	const struct settings_bus *bus = &settings->bus;

	cr_expect_str_eq(settings->path, "t.yaml");
	cr_expect_str_eq(bus->name, "equities");
	cr_assert_eq(bus->listen.count, 3);
	cr_expect_str_eq(bus->listen.texts[0], "shm:equities");
	cr_expect_str_eq(bus->listen.texts[1], "shm:other.name");
	cr_expect_str_eq(bus->listen.texts[2], "rdma:10.9.0.1:7471");
	cr_assert_eq(bus->users.count, 2);
	cr_expect_str_eq(bus->users.texts[0], "md");
	cr_expect_str_eq(bus->users.texts[1], "a\"b\\c\td\ne \xc3\xa9");
	cr_assert_eq(bus->groups.count, 2);
	cr_expect_str_eq(bus->groups.texts[0], "trading");
	cr_expect_str_eq(bus->groups.texts[1], "null");
	cr_expect_str_eq(bus->multicast, "239.1.2.3:7472");
	cr_expect_eq(bus->notice, SETTINGS_NOTICE_UDP);
	cr_expect_eq(bus->notice_bytes, 512);
	cr_expect_eq(bus->stale_ms, 250);
	cr_expect_eq(bus->exit_wait_ms, 0);
	cr_expect_eq(bus->topics_max, 7);
	cr_expect_eq(bus->subscribers_max, 9);
	cr_expect_eq(bus->subscribers_per_host, 4);
	cr_expect_eq(bus->ticket_overlap_s, 30);
	cr_expect_eq(bus->cpu, 3);
	cr_expect_eq(bus->numa, 1);
	expect_path(settings->log.file, "var/pubd.log");
	cr_expect_eq(settings->log.level, TB_LOG_DEBUG);
	cr_assert_eq(settings->schema_count, 3);
	cr_expect_str_eq(settings->schemas[0].source, "quote");
	cr_expect_str_eq(settings->schemas[1].name, "mine");
	expect_path(settings->schemas[1].source, "mine.yaml");
	cr_expect_eq(tb_schema_bytes(settings->schemas[1].schema), 8);
}

static void expect_full_feeds(const struct settings *settings)
{
	const struct settings_feed *feed = settings->feeds;

	cr_assert_eq(settings->feed_count, 3);
	cr_expect_str_eq(feed->name, "nasdaq");
	cr_expect(feed[0].line > 1 && feed[1].line > feed[0].line && feed[0].column == 5);
	cr_expect_eq(feed->type, SETTINGS_ITCH50);
	expect_path(feed->path, ODD_PATH);
	cr_expect(feed->date.year == 2019 && feed->date.month == 12 && feed->date.day == 30);
	cr_expect_str_eq(feed->time_zone, "UTC");
	cr_expect_eq(feed->from_s, 9 * 3600 + 30 * 60 + 1);
	cr_expect_eq(feed->speed_milli, 10500);
	cr_expect_eq(feed->start_subscribers, 3);
	cr_expect_eq(feed->at_end, SETTINGS_RESTART);
	cr_expect_eq(feed->incomplete, SETTINGS_FAIL);
	cr_expect_eq(feed->cpu, 2);
	cr_expect_eq(feed->wait, SETTINGS_SPIN);
	feed++;
	cr_expect_str_eq(feed->name, "made");
	cr_expect_eq(feed->type, SETTINGS_SYNTHETIC);
	cr_expect_eq(feed->seed, INT64_MAX);
	cr_expect_eq(feed->symbols, 12);
	cr_expect_eq(feed->messages, 77);
	cr_expect_eq(feed->seconds, 0);
	cr_expect_eq(feed->rate, 5);
	cr_expect_eq(feed->burst, 11);
	cr_expect(feed->date.year == 2024 && feed->date.month == 2 && feed->date.day == 29);
	cr_expect_str_eq(feed->time_zone, "Europe/Zurich");
	cr_expect_eq(feed->speed_milli, 1000);
	cr_expect_eq(feed->at_end, SETTINGS_EXIT);
	cr_expect_eq(feed->incomplete, SETTINGS_WARN);
	cr_expect_eq(feed->wait, SETTINGS_SLEEP);
	feed++;
	cr_expect_eq(feed->seconds, 60);
	cr_expect_eq(feed->symbols, 0);
	cr_expect_eq(feed->rate, 0);
	cr_expect_eq(feed->messages, 0);
}

static void expect_full_topics(const struct settings *settings)
{
	const struct settings_topic *topic = settings->topics;

	cr_assert_eq(settings->topic_count, 3);
	cr_expect_str_eq(topic->name, "nasdaq.quote");
	cr_expect_eq(topic->feed, &settings->feeds[0]);
	cr_expect_eq(topic->select, SETTINGS_QUOTE);
	cr_expect_eq(topic->schema, &settings->schemas[0]);
	cr_expect_eq(topic->slots, 128);
	cr_expect_eq(topic->instruments, 5);
	cr_expect_not(topic->last_value);
	cr_expect_not(topic->checked);
	cr_expect_null(topic->multicast);
	/* header, progress and directory: a page each; 128 slots of 64 bytes */
	cr_expect_eq(topic->bytes, 3 * 4096 + 128 * 64);
	topic++;
	cr_expect_str_eq(topic->multicast, "239.1.2.4:7472");
	cr_expect_eq(topic->feed, &settings->feeds[1]);
	cr_expect_eq(topic->select, SETTINGS_IMBALANCE);
	cr_expect_eq(topic->schema, &settings->schemas[1]);
}

static void expect_full_realms(const struct settings *settings)
{
	const struct settings_realm *realm = settings->realms;
	uint8_t ticket[TB_TICKET_BYTES];

	memset(ticket, 0xff, sizeof(ticket));
	cr_assert_eq(settings->realm_count, 2);
	cr_expect_str_eq(realm->name, "desk");
	expect_path(realm->ticket.path, "desk.ticket");
	cr_expect_arr_eq(realm->ticket.bytes, ticket, sizeof(ticket));
	cr_assert_eq(realm->topics.count, 2);
	cr_expect_str_eq(realm->topics.texts[0], "nasdaq.*");
	cr_expect_str_eq(realm->topics.texts[1], "made.trade");
	realm++;
	cr_expect_str_eq(realm->name, "anonymous");
	cr_expect_null(realm->ticket.path);
	cr_assert_eq(realm->topics.count, 1);
	cr_expect_str_eq(realm->topics.texts[0], ">");
	cr_expect_eq(realm->subscribers_max, 7); /* three quarters of 9, rounded up */
}

Test(values, single_realm_has_all_places)
{
	struct settings *settings =
		load("bus: { name: b, subscribers_max: 10 }\nschemas: [ quote ]\n"
		     "feeds: [ { name: f, type: synthetic } ]\n"
		     "topics: [ { name: t, feed: f, select: quote, schema: quote } ]\n"
		     "realms: [ { name: anonymous, topics: [ t ] } ]\n");
	char *text = print(settings);

	cr_expect(strstr(text, "\n  subscribers_per_host: 8\n"), "%s", text);
	cr_expect(strstr(text, "\n    subscribers_max: 10\n"), "%s", text);
	free(text);
	settings_free(settings);
}

static void expect_full(const struct settings *settings)
{
	expect_full_bus(settings);
	expect_full_feeds(settings);
	expect_full_topics(settings);
	expect_full_realms(settings);
}

Test(values, written_values_are_loaded)
{
	struct settings *settings = load(full);
	const char *place = full;

	expect_full(settings);
	for (uint32_t line = 1; line < settings->topics[0].line; line++)
		place = strchr(place, '\n') + 1;
	place += settings->topics[0].column - 1;
	cr_expect(strncmp(place, "quote, slots", 12) == 0, "%s", place);
	settings_free(settings);
}

Test(values, printed_settings_read_back_equal)
{
	struct settings *settings = load(full), *again;
	char *text = print(settings), *text_again;

	again = load(text);
	expect_full(again);
	text_again = print(again);
	cr_expect_str_eq(text_again, text);
	free(text);
	free(text_again);
	settings_free(settings);
	settings_free(again);
}

Test(values, defaults_equal_the_manual)
{
	struct settings *settings =
		load("bus: { name: b }\nschemas: [ quote ]\n"
		     "feeds: [ { name: f, type: synthetic } ]\n"
		     "topics: [ { name: t, feed: f, select: quote, schema: quote } ]\n");
	char *text = print(settings);

	cr_expect_str_eq(text,
			 "bus:\n"
			 "  name: \"b\"\n"
			 "  listen: [ \"shm:b\" ]\n"
			 "  access:\n"
			 "    users: []\n"
			 "    groups: []\n"
			 "  notice: auto\n"
			 "  notice_bytes: 1024\n"
			 "  stale_ms: 1000\n"
			 "  exit_wait_ms: 5000\n"
			 "  topics_max: 256\n"
			 "  subscribers_max: 1024\n"
			 "  subscribers_per_host: 768\n"
			 "  ticket_overlap_s: 60\n"
			 "  cpu: -1\n"
			 "  numa: -1\n"
			 "log:\n"
			 "  level: info\n"
			 "schemas:\n"
			 "  - \"quote\"\n"
			 "feeds:\n"
			 "  - name: \"f\"\n"
			 "    type: synthetic\n"
			 "    speed: \"max\"\n"
			 "    start:\n"
			 "      subscribers: 0\n"
			 "    at_end: linger\n"
			 "    incomplete: warn\n"
			 "    cpu: -1\n"
			 "    wait: backoff\n"
			 "    seed: 1\n"
			 "    burst: 20\n"
			 "    date: \"2020-01-02\"\n"
			 "    time_zone: \"America/New_York\"\n"
			 "topics:\n"
			 "  - name: \"t\"\n"
			 "    feed: \"f\"\n"
			 "    select: quote\n"
			 "    schema: \"quote\"\n"
			 "    slots: 65536\n"
			 "    instruments: 16384\n"
			 "    last_value: true\n"
			 "    checked: true\n",
			 "%s", text);
	cr_expect_null(settings->log.file);
	cr_expect_eq(settings->feeds[0].cpu, -1);
	cr_expect_eq(settings->feeds[0].speed_milli, 0);
	free(text);
	settings_free(settings);
}

Test(values, itch_feed_defaults_to_new_york_and_midnight)
{
	struct settings *settings =
		load("bus: { name: b }\nschemas: [ quote ]\n"
		     "feeds: [ { name: f, type: itch50, path: mine.yaml, date: 2019-12-30 } ]\n"
		     "topics: [ { name: t, feed: f, select: quote, schema: quote } ]\n");

	cr_expect_str_eq(settings->feeds[0].time_zone, "America/New_York");
	cr_expect_eq(settings->feeds[0].from_s, 0);
	settings_free(settings);
}

/* A value answers "what is it now?"; depths and imbalances pay for it only when asked to. */
Test(values, last_value_defaults_to_true_where_a_value_is_asked_for)
{
	static const struct {
		const char *select;
		bool expected;
	} selects[] = { { "quote", true },  { "trade", true },      { "depth10", false },
			{ "status", true }, { "imbalance", false }, { "definition", true } };

	for (size_t i = 0; i < sizeof(selects) / sizeof(selects[0]); i++)
		for (int given = 0; given < 3; given++) {
			static const char *const keys[] = { "", ", last_value: false",
							    ", last_value: true" };
			struct settings *settings;
			char text[400], *printed;

			snprintf(text, sizeof(text),
				 "bus: { name: b }\nschemas: [ quote ]\n"
				 "feeds: [ { name: f, type: synthetic } ]\n"
				 "topics: [ { name: t, feed: f, select: %s, schema: quote%s } ]\n",
				 selects[i].select, keys[given]);
			settings = load(text);
			cr_expect_eq(settings->topics[0].last_value,
				     given ? given == 2 : selects[i].expected, "%s", text);
			printed = print(settings);
			cr_expect_not_null(strstr(printed, settings->topics[0].last_value
								   ? "    last_value: true\n"
								   : "    last_value: false\n"));
			free(printed);
			settings_free(settings);
		}
}

/* A randomly damaged file is refused with a message, or accepted; then it prints and reads. */
Test(values, damaged_file_is_refused_or_valid)
{
	static const char bytes[] = " \n\t-:,[]{}\"'#&*!|>%?0129axz\x80\xc3\0";
	const char *given = getenv("TICKBUS_TEST_SEED");
	const unsigned int seed =
		given ? (unsigned int)strtoul(given, NULL, 10) : (unsigned int)time(NULL);
	unsigned int taken = 0, state = seed;
	FILE *null = fopen("/dev/null", "w");

	printf("# seed: TICKBUS_TEST_SEED=%u\n", seed);
	for (int i = 0; i < 3000; i++) {
		struct settings *settings;
		char text[sizeof(full)];
		size_t length = sizeof(full) - 1;

		memcpy(text, full, sizeof(full));
		for (int edits = 1 + rand_r(&state) % 3; edits; edits--)
			text[(size_t)rand_r(&state) % length] =
				bytes[(size_t)rand_r(&state) % (sizeof(bytes) - 1)];
		if (rand_r(&state) % 8 == 0)
			length = (size_t)rand_r(&state) % length;
		file_write("t.yaml", text, length);
		if (settings_load(&settings, "t.yaml", null) == 0) {
			char *printed = print(settings);

			settings_free(settings);
			settings_free(load(printed));
			free(printed);
			taken++;
		}
	}
	fclose(null);
	cr_expect(taken > 0 && taken < 3000, "%u", taken);
}
