/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the settings: the tables of keys, then the rules between keys. Schemas and feeds are read
 * before the topics that name them. */
#include "config/settings.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "bus/address.h"
#include "bus/error.h"
#include "bus/region.h"
#include "bus/bounds.h"
#include "config/tables.h"

#define FOUND_MAX 80

/* The keys of each type of feed, besides those of every feed. */
static const struct key *const further_keys[] = {
	[SETTINGS_ITCH50] = tables_itch50,
	[SETTINGS_SYNTHETIC] = tables_synthetic,
	NULL,
};
#define FEED_TYPES (sizeof(further_keys) / sizeof(*further_keys) - 2)

/* A list of the file with 1 to max entries; otherwise NULL and an error. */
static const struct located_node *section(struct reading *reading, const struct located_node *root,
					  const char *key, const char *expected, uint32_t max)
{
	const struct located_node *list = located_need(&reading->errors, root, key, expected);

	if (!located_is_sequence(&reading->errors, list, expected))
		return NULL;
	if (list->count >= 1 && list->count <= max)
		return list;
	located_error(&reading->errors, list, "found %u entries, expected 1 to %u%s", list->count,
		      max,
		      strcmp(key, "realms") == 0 && list->count == 0
			      ? ": without realms leave out the key"
			      : "");
	return NULL;
}

/* Every item begins with its name, or NULL. */
static void expect_new_name(struct reading *reading, const struct located_node *node,
			    const void *items, size_t item_bytes, size_t count)
{
	const char *const *last = (const void *)((const char *)items + count * item_bytes);

	for (size_t i = 0; *last && i < count; i++) {
		const char *const *name = (const void *)((const char *)items + i * item_bytes);

		if (*name && strcmp(*name, *last) == 0) {
			located_error(&reading->errors, node,
				      "found %s again, expected each name once", *last);
			return;
		}
	}
}

/* Adds a schema's own errors, each with its own position. */
static void errors_append(struct reading *reading, const char *lines)
{
	while (*lines) {
		const size_t length = strcspn(lines, "\n");

		located_error_line(&reading->errors, "%.*s", (int)length, lines);
		lines += length + (lines[length] == '\n');
	}
}

static bool is_built_in(const char *name)
{
	for (const char *const *known = tb_schema_builtins(); *known; known++)
		if (strcmp(name, *known) == 0)
			return true;
	return false;
}

static void built_in_list(struct reading *reading, const char *text)
{
	const char *const *names = tb_schema_builtins();
	struct items items = { names, sizeof(*names), 0 };

	while (names[items.count])
		items.count++;
	forms_list(reading, &items, text);
}

static void schema_read(struct reading *reading, const struct located_node *node,
			struct settings_schema *schema)
{
	const char *text;
	char found[FOUND_MAX];

	if (!located_string(&reading->errors, node, 1, PATH_MAX, &text))
		return;
	/* A text that looks like a name is not opened as a file. */
	if (!is_built_in(text) && !strpbrk(text, "./")) {
		built_in_list(reading, text);
		located_error(
			&reading->errors, node,
			"found %s, expected the path of a .yaml file or a built-in schema: %s",
			located_found(node, found, sizeof(found)), reading->reason);
		return;
	}
	schema->source =
		is_built_in(text) ? reading_text(reading, "%s", text) : reading_path(reading, text);
	/* A file that is listed again and again is an error each time, and is read at most so
	 * often. */
	if (!schema->source || reading->errors.count >= YAML_ERRORS_MAX)
		return;
	if (tb_schema_load(&schema->schema, schema->source) < 0) {
		located_error(&reading->errors, node, "found %s, expected a schema without errors:",
			      located_found(node, found, sizeof(found)));
		errors_append(reading, tb_error());
		return;
	}
	schema->name = tb_schema_name(schema->schema);
}

static void schemas_read(struct reading *reading, const struct located_node *root)
{
	struct settings *settings = reading->settings;
	const struct located_node *list =
		section(reading, root, "schemas", "a list of schemas", BOUND_SCHEMAS_MAX);

	if (list)
		settings->schemas = reading_keep(reading, list->count * sizeof(*settings->schemas));
	if (!settings->schemas)
		return;
	for (const struct located_node *node = list->first; node; node = node->next) {
		schema_read(reading, node, &settings->schemas[settings->schema_count]);
		expect_new_name(reading, node, settings->schemas, sizeof(*settings->schemas),
				settings->schema_count);
		settings->schema_count++;
	}
}

/* A key without an effect may be given with its default, since printed settings have all keys. */
static void expect_default(struct reading *reading, const struct located_node *mapping,
			   const char *key, bool is_default, const char *why)
{
	const struct located_node *node = is_default ? NULL : located_get(mapping, key);

	if (node)
		located_error(&reading->errors, node, "found \"%s\", expected no %s: %s",
			      node->text, key, why);
}

/* Keys of the pace, where no message is waited for. It looks at the text of the speed, since a
 * wrong speed is 0 too. A wrong value of the keys is 0, and reported already. */
static void pace_check(struct reading *reading, const struct located_node *node,
		       const struct settings_feed *feed)
{
	const struct located_node *speed = located_get(node, "speed");
	const char *why = "with speed: max the feed waits for no message";

	if (speed && (speed->kind != YAML_SCALAR || strcmp(speed->text, "max") != 0))
		return;
	expect_default(reading, node, "wait", !feed->wait || feed->wait == SETTINGS_BACKOFF, why);
	expect_default(reading, node, "from", feed->from_s == 0, why);
}

static void feed_read(struct reading *reading, const struct located_node *node,
		      struct settings_feed *feed)
{
	const struct key *tables[FEED_TYPES + 2] = { tables_feed };
	const struct located_node *path = located_get(node, "path");

	feed->line = node->line;
	feed->column = node->column;
	if (path) {
		feed->path_line = path->line;
		feed->path_column = path->column;
	}
	if (node->kind == YAML_MAPPING)
		keys_read(reading, node, tables_feed, feed);
	if (feed->type)
		tables[1] = further_keys[feed->type];
	else /* the type is wrong: keys of every type are accepted */
		memcpy(&tables[1], &further_keys[1], FEED_TYPES * sizeof(*tables));
	if (!keys_known_besides(reading, node, tables, &further_keys[1]))
		return;
	if (feed->type) {
		keys_foreign(reading, node, tables, &further_keys[1], tables_types,
			     tables_types[feed->type - 1]);
		keys_read(reading, node, further_keys[feed->type], feed);
	} else {
		keys_read_given(reading, node, &further_keys[1], feed);
	}
	pace_check(reading, node, feed);
	if (feed->type == SETTINGS_SYNTHETIC && located_get(node, "messages") &&
	    located_get(node, "seconds"))
		located_error(&reading->errors, located_get(node, "seconds"),
			      "found seconds together with messages, expected one of the two");
}

static void feeds_read(struct reading *reading, const struct located_node *root)
{
	struct settings *settings = reading->settings;
	const struct located_node *list =
		section(reading, root, "feeds", "a list of feeds", BOUND_FEEDS_MAX);

	if (list)
		settings->feeds = reading_keep(reading, list->count * sizeof(*settings->feeds));
	if (!settings->feeds)
		return;
	for (const struct located_node *node = list->first; node; node = node->next) {
		const unsigned int errors = reading->errors.count;

		feed_read(reading, node, &settings->feeds[settings->feed_count]);
		settings->feeds[settings->feed_count].wrong = reading->errors.count > errors;
		expect_new_name(reading, located_get(node, "name"), settings->feeds,
				sizeof(*settings->feeds), settings->feed_count);
		settings->feed_count++;
	}
}

static bool has_topic(const struct settings *settings, const struct settings_feed *feed)
{
	for (size_t i = 0; i < settings->topic_count; i++) {
		const struct settings_topic *topic = &settings->topics[i];

		/* A topic whose feed is wrong may mean this feed. */
		if (!topic->feed || !topic->feed->name ||
		    strcmp(topic->feed->name, feed->name) == 0)
			return true;
	}
	return settings->topic_count == 0;
}

/* A feed without a topic would run and publish nothing. Read after the topics. */
static void feeds_expect_topics(struct reading *reading, const struct located_node *root)
{
	const struct located_node *list = located_get(root, "feeds");
	const struct settings_feed *feed = reading->settings->feeds;

	if (!feed)
		return;
	for (const struct located_node *node = list->first; node; node = node->next, feed++)
		if (feed->name && !has_topic(reading->settings, feed))
			located_error(&reading->errors, node,
				      "found no topic with the feed %s, expected at least one: "
				      "add a topic, or leave out the feed",
				      feed->name);
}

/* The memory that the topic needs, computed like its layout. */
static void topic_measure(struct reading *reading, const struct located_node *node,
			  struct settings_topic *topic)
{
	struct region_layout layout;
	const struct region_shape shape = {
		.epoch = 1,
		.topic_id = 1,
		.slots = topic->slots,
		.slot_bytes = region_slot_bytes(tb_schema_bytes(topic->schema->schema)),
		.capacity = topic->instruments,
		.flags = (topic->checked ? REGION_FLAG_CHECKED : 0) |
			 (topic->last_value ? REGION_FLAG_LAST_VALUE : 0),
	};

	if (region_layout(&shape, &layout) < 0)
		located_error(&reading->errors, node, "%s", tb_error());
	else
		topic->bytes = layout.bytes;
}

/* A quota above the maximum of the bus has no effect. */
static void quota_check(struct reading *reading, const struct located_node *node, uint32_t quota)
{
	const uint32_t max = reading->settings->bus.subscribers_max;

	if (max && quota > max)
		located_error(&reading->errors, node,
			      "found %u, expected at most bus.subscribers_max, %u", quota, max);
}

/* The bus's own groups, against which groups of topics are checked. */
static void networks_read(struct reading *reading)
{
	const struct settings_bus *bus = &reading->settings->bus;
	struct sockaddr_storage given = { .ss_family = AF_UNSPEC };

	if (bus->multicast)
		address_parse_group(bus->multicast, &given);
	reading->groups.silent = bus->notice == SETTINGS_NOTICE_NONE;
	for (size_t i = 0; i < bus->listen.count && i < BOUND_LISTENERS_MAX; i++)
		if (strncmp(bus->listen.texts[i], "rdma:", 5) == 0)
			groups_listen(&reading->groups, bus->name ? bus->name : "",
				      bus->listen.texts[i] + 5, &given);
}

static bool has_address(const struct settings_bus *bus, const char *scheme)
{
	for (size_t i = 0; i < bus->listen.count; i++)
		if (strncmp(bus->listen.texts[i], scheme, strlen(scheme)) == 0)
			return true;
	return false;
}

/* Keys of notices, where no notice is sent. A wrong value is 0, and reported already. */
static void notices_check(struct reading *reading, const struct located_node *node)
{
	const struct settings_bus *bus = &reading->settings->bus;
	const char *why = "the bus sends no notices";

	if (bus->listen.count && !has_address(bus, "rdma:")) {
		why = "the bus listens at shared memory only";
		expect_default(reading, node, "notice",
			       !bus->notice || bus->notice == SETTINGS_NOTICE_AUTO, why);
	} else if (bus->notice != SETTINGS_NOTICE_NONE) {
		return;
	}
	expect_default(reading, node, "notice_bytes",
		       !bus->notice_bytes || bus->notice_bytes == BOUND_NOTICE_BYTES, why);
	if (bus->multicast)
		located_error(&reading->errors, located_get(node, "multicast"),
			      "found \"%s\", expected no group: %s", bus->multicast, why);
}

static bool has_ticket(const struct located_node *realms)
{
	if (!realms || realms->kind != YAML_SEQUENCE)
		return false;
	for (const struct located_node *realm = realms->first; realm; realm = realm->next)
		if (located_get(realm, "ticket_file"))
			return true;
	return false;
}

/* Read before the realms, so it looks at their nodes. */
static void overlap_check(struct reading *reading, const struct located_node *root)
{
	const struct located_node *bus = located_get(root, "bus");
	const struct located_node *node = located_get(bus, "ticket_overlap_s");
	const uint32_t overlap_s = reading->settings->bus.ticket_overlap_s;
	const bool wrong = node && overlap_s == 0 && strcmp(node->text, "0") != 0;

	if (node && node->kind == YAML_SCALAR && !has_ticket(located_get(root, "realms")))
		expect_default(reading, bus, "ticket_overlap_s",
			       wrong || overlap_s == BOUND_TICKET_OVERLAP_S,
			       "no realm has a ticket");
}

/* Rules between keys of the bus. */
static void bus_check(struct reading *reading, const struct located_node *node)
{
	struct settings_bus *bus = &reading->settings->bus;

	notices_check(reading, node);
	quota_check(reading, located_get(node, "subscribers_per_host"), bus->subscribers_per_host);
	if (!bus->subscribers_per_host)
		bus->subscribers_per_host = BOUND_QUOTA(bus->subscribers_max);
}

static void topic_group(struct reading *reading, const struct located_node *node,
			const struct settings_topic *topic)
{
	if (topic->multicast && groups_take(&reading->groups, topic->multicast,
					    topic->name ? topic->name : "?", topic->checked) < 0)
		located_error(&reading->errors, node, "%s", tb_error());
}

/* Looks at the text, since another text than a boolean has an error already. */
static void unchecked_check(struct reading *reading, const struct located_node *node)
{
	const struct settings_bus *bus = &reading->settings->bus;

	if (node && node->kind == YAML_SCALAR && strcmp(node->text, "false") == 0 &&
	    bus->listen.count && !has_address(bus, "shm:"))
		located_error(&reading->errors, node,
			      "found \"false\", expected true: an unchecked topic is served over "
			      "shared memory only, and the bus has no shm: address");
}

/* A last value answers "what is it now?" and costs a second write of each record. A depth has the
 * most bytes, and an imbalance is of the moment. */
static bool last_value_default(enum settings_select select)
{
	return select == SETTINGS_QUOTE || select == SETTINGS_TRADE || select == SETTINGS_STATUS ||
	       select == SETTINGS_DEFINITION;
}

static void topic_read(struct reading *reading, const struct located_node *node,
		       struct settings_topic *topic)
{
	const struct located_node *schema = located_get(node, "schema");

	if (!keys_known(reading, node, (const struct key *const[]){ tables_topic, NULL }))
		return;
	keys_read(reading, node, tables_topic, topic);
	if (!located_get(node, "last_value"))
		topic->last_value = last_value_default(topic->select);
	if (schema) {
		topic->line = schema->line;
		topic->column = schema->column;
	}
	topic_group(reading, located_get(node, "multicast"), topic);
	unchecked_check(reading, located_get(node, "checked"));
	if (topic->schema && topic->slots && topic->instruments)
		topic_measure(reading, node, topic);
}

static void topics_read(struct reading *reading, const struct located_node *root)
{
	struct settings *settings = reading->settings;
	const struct located_node *list =
		section(reading, root, "topics", "a list of topics", BOUND_TOPICS_MAX);

	if (list)
		settings->topics = reading_keep(reading, list->count * sizeof(*settings->topics));
	if (!settings->topics)
		return;
	if (settings->bus.topics_max && list->count > settings->bus.topics_max)
		located_error(&reading->errors, list,
			      "found %u topics, expected at most bus.topics_max, %u", list->count,
			      settings->bus.topics_max);
	networks_read(reading);
	for (const struct located_node *node = list->first; node; node = node->next) {
		topic_read(reading, node, &settings->topics[settings->topic_count]);
		expect_new_name(reading, located_get(node, "name"), settings->topics,
				sizeof(*settings->topics), settings->topic_count);
		settings->topic_count++;
	}
}

/* A forgotten ticket must not open a realm to all clients. So the realm without a ticket has a name
 * of its own. */
static void expect_ticket(struct reading *reading, const struct located_node *node,
			  const struct settings_realm *realm)
{
	const struct settings *settings = reading->settings;
	const struct located_node *file = located_get(node, "ticket_file");

	if (!realm->name)
		return;
	if (strcmp(realm->name, "anonymous") == 0) {
		if (file)
			located_error(&reading->errors, file,
				      "found a ticket for anonymous, expected no ticket_file: this "
				      "realm is for clients without a ticket");
		return;
	}
	if (!file)
		located_error(&reading->errors, node,
			      "found no ticket_file, expected its path: only the realm anonymous "
			      "needs no ticket");
	if (!realm->ticket.path)
		return;
	for (const struct settings_realm *other = settings->realms; other < realm; other++)
		if (other->ticket.path && memcmp(other->ticket.bytes, realm->ticket.bytes,
						 sizeof(realm->ticket.bytes)) == 0)
			located_error(&reading->errors, file,
				      "found the ticket of realm %s again, expected each once",
				      other->name ? other->name : "?");
}

/* As the publisher derives it: a single realm leaves no places to others. */
static void quota_derive(const struct settings *settings, struct settings_realm *realm, bool alone)
{
	const uint32_t max = settings->bus.subscribers_max;

	if (!realm->subscribers_max)
		realm->subscribers_max = alone ? max : BOUND_QUOTA(max);
}

/* Read after the topics, since its patterns must match them. */
static void realms_read(struct reading *reading, const struct located_node *root)
{
	struct settings *settings = reading->settings;
	const struct located_node *list =
		located_get(root, "realms")
			? section(reading, root, "realms", "a list of realms", BOUND_REALMS_MAX)
			: NULL;

	if (list)
		settings->realms = reading_keep(reading, list->count * sizeof(*settings->realms));
	if (!settings->realms)
		return;
	for (const struct located_node *node = list->first; node; node = node->next) {
		struct settings_realm *realm = &settings->realms[settings->realm_count];

		if (keys_known(reading, node, (const struct key *const[]){ tables_realm, NULL })) {
			keys_read(reading, node, tables_realm, realm);
			quota_check(reading, located_get(node, "subscribers_max"),
				    realm->subscribers_max);
			quota_derive(settings, realm, list->count == 1);
			expect_ticket(reading, node, realm);
			expect_new_name(reading, located_get(node, "name"), settings->realms,
					sizeof(*settings->realms), settings->realm_count);
		}
		settings->realm_count++;
	}
}

/* The folder of the file, absolute, so that printed settings mean the same in any folder. */
static bool folder_find(struct reading *reading, const char *path)
{
	char *copy = strdup(path), *folder = copy ? realpath(dirname(copy), NULL) : NULL;

	if (folder)
		reading->folder = reading_text(reading, "%s", folder);
	else
		located_error_line(&reading->errors, "%s: its folder cannot be found: %s", path,
				   strerror(errno));
	free(folder);
	free(copy);
	return reading->folder;
}

static void file_read(struct reading *reading, const char *path)
{
	struct located_document *document = located_load(&reading->errors, path);
	const struct located_node *root = located_root(document);

	reading->settings->path = reading_text(reading, "%s", path);
	if (document && folder_find(reading, path) &&
	    keys_known(reading, root, (const struct key *const[]){ tables_root, NULL })) {
		keys_read(reading, root, tables_root, reading->settings);
		bus_check(reading, located_get(root, "bus"));
		overlap_check(reading, root);
		schemas_read(reading, root);
		feeds_read(reading, root);
		topics_read(reading, root);
		feeds_expect_topics(reading, root);
		realms_read(reading, root);
	}
	located_free(document);
}

static void errors_print(const struct located_errors *errors, FILE *file)
{
	if (errors->text)
		fwrite(errors->text, 1, errors->used, file);
	if (errors->count > YAML_ERRORS_MAX)
		fprintf(file, "and %u more errors\n", errors->count - YAML_ERRORS_MAX);
}

int settings_load(struct settings **settings, const char *path, FILE *errors)
{
	return settings_load_checked(settings, path, NULL, errors);
}

int settings_load_checked(struct settings **settings, const char *path,
			  unsigned int (*check)(struct settings *, FILE *errors), FILE *errors)
{
	struct reading reading = { .settings = calloc(1, sizeof(*reading.settings)) };
	unsigned int found;
	int result = 0;

	*settings = NULL;
	if (!reading.settings) {
		fputs("no memory for the settings\n", errors);
		return error_set(ENOMEM, "no memory for the settings");
	}
	file_read(&reading, path);
	errors_print(&reading.errors, errors);
	found = reading.errors.count;
	if (check && reading.settings->path && reading.folder)
		found += check(reading.settings, errors);
	if (found) {
		result = error_set(reading.errors.no_memory ? ENOMEM : EINVAL,
				   "%s: found %u errors, expected none", path, found);
		settings_free(reading.settings);
	} else {
		*settings = reading.settings;
	}
	located_errors_free(&reading.errors);
	return result;
}

void settings_wipe_tickets(struct settings *settings)
{
	for (size_t i = 0; i < settings->realm_count; i++)
		explicit_bzero(settings->realms[i].ticket.bytes, TB_TICKET_BYTES);
}

void settings_free(struct settings *settings)
{
	if (!settings)
		return;
	for (size_t i = 0; i < settings->schema_count; i++)
		tb_schema_free(settings->schemas[i].schema);
	settings_wipe_tickets(settings);
	reading_free(settings);
	free(settings);
}

void settings_print(const struct settings *settings, FILE *file)
{
	keys_print(file, tables_root, settings, "", "");
	fputs("schemas:\n", file);
	for (size_t i = 0; i < settings->schema_count; i++) {
		fputs("  - ", file);
		keys_print_text(file, settings->schemas[i].source);
		fputc('\n', file);
	}
	fputs("feeds:\n", file);
	for (size_t i = 0; i < settings->feed_count; i++) {
		const struct settings_feed *feed = &settings->feeds[i];

		keys_print(file, tables_feed, feed, "  - ", "    ");
		keys_print(file, further_keys[feed->type], feed, "    ", "    ");
	}
	fputs("topics:\n", file);
	for (size_t i = 0; i < settings->topic_count; i++)
		keys_print(file, tables_topic, &settings->topics[i], "  - ", "    ");
	if (settings->realm_count)
		fputs("realms:\n", file);
	for (size_t i = 0; i < settings->realm_count; i++)
		keys_print(file, tables_realm, &settings->realms[i], "  - ", "    ");
}
