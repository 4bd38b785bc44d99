/* SPDX-License-Identifier: Apache-2.0 */
/* A topic's memory is damaged: a single field, or random bytes. The subscriber works on: each call
 * returns, and no record that fails its check is delivered. No read goes past the memory, which
 * lies between guard pages. Once the memory is intact again, every record is accounted for.
 * fields.c damages header and last values field by field.
 *
 * Damage goes through the writer's own mapping: raw (its check fails) or sealed (its check is
 * valid, as by a faulty publisher). Sealed damage may be believed, but must do no harm. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bus/counters.h"
#include "bus/directory.h"
#include "bus/shm/shm.h"
#include "bus/words.h"
#include "publisher/state.h"
#include "subscriber/state.h"
#include "tests/faults/guard_pages.h"
#include "tests/support/bytewise.h"
#include "tests/support/deadline.h"
#include "tests/support/random.h"
#include "tests/support/scene.h"
#include "tests/support/watched.h"

#define SLOTS           64
#define STAGES          20 /* names are fetched once per stage */
#define ROUNDS          80
#define TAKEN_LEAST     1000 /* records delivered during damage */
#define REFUSED_LEAST   100  /* copies refused during damage */
#define PAUSE_US        300  /* longest pause between two damages */
#define POLLS           6    /* after each damage: READs complete later than they are posted */
#define POLL_EVENTS_MAX 2048

static const char *const schemes[] = { "shm", "bytewise" };

enum { RAW = 0, SEALED = 1 };

/* What a handler received, and whether it is possible. */
struct seen {
	uint64_t records, lost, overrun, wrong, events;
	_Atomic uint64_t last; /* sequence accounted for, delivered or lost */
	bool ended, stale, live, refused, backward, impossible;
};

static uint64_t state;

static void enter(void)
{
	scene_enter();
	state = random_seed();
	bytewise_add(state);
}

TestSuite(memory, .init = enter, .fini = scene_leave, .timeout = 60);

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	struct seen *seen = user;
	uint64_t x = 0;

	(void)source;
	if (record->length >= sizeof(x))
		memcpy(&x, record->data, sizeof(x));
	seen->records++;
	seen->wrong += x != record->sequence || record->kind != TB_KIND_UPDATE || !record->name ||
		       strcmp(record->name, x % 2 ? "A" : "B") != 0;
	seen->backward |= record->sequence <= seen->last;
	seen->impossible |= !record->name || !*record->name || record->kind == 0 ||
			    record->instrument >= 16 || record->length > SLOT_BYTES_MAX;
	seen->last = record->sequence;
}

static void on_event(void *user, const struct tb_event *event)
{
	struct seen *seen = user;

	seen->events++;
	if (event->kind == TB_EVENT_GAP) {
		seen->lost += event->last - event->first + 1;
		seen->overrun += event->cause == TB_CAUSE_OVERRUN;
		seen->backward |= event->first <= seen->last || event->last < event->first;
		seen->last = event->last;
	}
	seen->ended |= event->kind == TB_EVENT_ENDED;
	seen->stale |= event->kind == TB_EVENT_STALE;
	seen->live |= event->kind == TB_EVENT_LIVE;
	seen->refused |= event->kind == TB_EVENT_REFUSED;
}

struct stage {
	struct tb_publisher *publisher;
	struct tb_topic *topic;
	struct tb_subscriber *subscriber;
	struct region_layout layout;
	struct seen seen;
	_Atomic uint64_t published; /* the thread that does damage reads it and seen.last */
};

static void stage_open(struct stage *stage, const char *scheme, uint32_t flags, uint32_t how)
{
	struct tb_subscription_options options = { .size = sizeof(options),
						   .on_record = on_record,
						   .on_event = on_event,
						   .user = &stage->seen,
						   .from = TB_FROM_OLDEST,
						   .flags = how };
	struct tb_subscription *subscription;

	memset(stage, 0, sizeof(*stage));
	stage->publisher = scene_publisher(scheme);
	stage->topic = scene_topic(stage->publisher, "t", SLOTS, flags);
	cr_assert_eq(region_layout(&stage->topic->shape, &stage->layout), 0);
	stage->subscriber = scene_subscriber(scheme, 0);
	cr_assert_eq(tb_subscribe(stage->subscriber, "t", &options, &subscription), 0, "%s",
		     tb_error());
	/* With its descriptor in use, every poll that finds nothing collects what was READ. */
	if (strcmp(scheme, "shm") != 0)
		tb_subscriber_fd(stage->subscriber);
}

static uint64_t refused(const struct stage *stage)
{
	uint64_t value[SUBSCRIPTION_COUNTERS];

	tb_subscription_counters(stage->subscriber->subscriptions, value, SUBSCRIPTION_COUNTERS);
	return value[SUBSCRIPTION_TORN];
}

static void stage_close(struct stage *stage)
{
	tb_subscriber_close(stage->subscriber);
	tb_publisher_close(stage->publisher);
}

static void publish(struct stage *stage, uint64_t count)
{
	scene_publish(stage->topic, stage->published + 1, stage->published + count);
	stage->published += count;
}

static void poll_some(struct stage *stage)
{
	for (int i = 0; i < POLLS; i++) {
		const uint64_t before = stage->seen.events;

		cr_assert_geq(tb_poll(stage->subscriber, 1000), 0);
		cr_assert_lt(stage->seen.events - before, POLL_EVENTS_MAX);
	}
}

ParameterizedTestParameters(memory, each_mapping_lies_between_guard_pages)
{
	static size_t which[] = { 0, 1 };

	return cr_make_param_array(size_t, which, 2);
}

ParameterizedTest(size_t *which, memory, each_mapping_lies_between_guard_pages)
{
	const struct tb_subscriber *subscriber;
	struct stage stage;

	stage_open(&stage, schemes[*which], 0, 0);
	subscriber = stage.subscriber;
	cr_expect(guard_pages_hold(stage.topic->memory.base, stage.layout.bytes));
	cr_expect(guard_pages_hold(stage.publisher->realms[0].page.base,
				   stage.publisher->realms[0].page.bytes));
	cr_expect(guard_pages_hold(shm_view(subscriber->table[0]->mapping.remote),
				   stage.layout.bytes));
	cr_expect(guard_pages_hold(shm_view(subscriber->page), subscriber->page_bytes));
	stage_close(&stage);
}

/* -- damage -------------------------------------------------------------------------------------
 */

struct structure {
	uint64_t offset; /* in the region */
	uint32_t bytes, check;
	uint64_t salt;
};

static struct structure slot_of(const struct stage *stage, uint64_t sequence)
{
	return (struct structure){ stage->layout.ring + (sequence & (SLOTS - 1)) *
								stage->topic->shape.slot_bytes,
				   RECORD_HEADER_BYTES + sizeof(uint64_t),
				   offsetof(struct record, check), stage->topic->salt };
}

/* A last value: subscribers to records never read it. */
static struct structure value_of(const struct stage *stage, uint64_t instrument)
{
	return (struct structure){ stage->layout.last_value +
					   instrument * stage->topic->shape.slot_bytes,
				   RECORD_HEADER_BYTES + sizeof(uint64_t),
				   offsetof(struct record, check), stage->topic->salt };
}

static struct structure structure_draw(const struct stage *stage)
{
	const struct tb_topic *topic = stage->topic;
	const uint64_t unread = stage->published - stage->seen.last;

	switch (random_below(&state, 5)) {
	case 0:
		return (struct structure){ stage->layout.progress, sizeof(struct progress),
					   offsetof(struct progress, check), topic->progress_salt };
	case 1:
		return (struct structure){ stage->layout.directory +
						   random_below(&state, 3) * DIRECTORY_ENTRY_BYTES,
					   DIRECTORY_ENTRY_BYTES,
					   offsetof(struct directory_entry, check),
					   topic->directory_salt };
	case 2:
		return value_of(stage, random_below(&state, 3));
	case 3:
		return slot_of(stage, random_draw(&state));
	default: /* a slot that is about to be read */
		return slot_of(stage,
			       stage->published - (unread ? random_draw(&state) % unread : 0));
	}
}

/* A small, a large, or any value. */
static uint64_t value_draw(void)
{
	switch (random_below(&state, 4)) {
	case 0:
		return random_below(&state, 256);
	case 1:
		return UINT64_MAX - random_below(&state, 256);
	case 2:
		return UINT64_C(1) << random_below(&state, 64);
	default:
		return random_draw(&state);
	}
}

/* Changes 1, 2, 4 or 8 bytes of a structure. */
static void damage(const struct stage *stage, const struct structure *what, int sealed)
{
	const uint32_t bytes = 1u << random_below(&state, 4);
	const uint32_t at = (uint32_t)random_below(&state, what->bytes / bytes) * bytes;
	const uint64_t value = value_draw();
	char *base = (char *)stage->topic->memory.base + what->offset;
	_Alignas(8) char copy[SLOT_BYTES_MAX];
	uint64_t check;

	words_load(copy, base, what->bytes);
	memcpy(copy + at, &value, bytes);
	if (sealed) {
		check = record_hash(copy, what->bytes, what->check, what->salt);
		memcpy(copy + what->check, &check, sizeof(check));
	}
	words_store(base, copy, what->bytes);
}

/* Damages a field, polls, and repairs the field, again and again. */
static void attack(struct stage *stage, int sealed)
{
	_Alignas(8) char kept[SLOT_BYTES_MAX];

	for (int round = 0; round < ROUNDS; round++) {
		struct structure what;
		char *base;

		publish(stage, random_below(&state, 8));
		what = structure_draw(stage);
		base = (char *)stage->topic->memory.base + what.offset;
		words_load(kept, base, what.bytes);
		damage(stage, &what, sealed);
		poll_some(stage);
		words_store(base, kept, what.bytes);
		poll_some(stage);
	}
	cr_expect_not(stage->seen.backward);
	cr_expect_not(stage->seen.impossible);
}

static void read_to_the_end(struct stage *stage)
{
	publish(stage, 3 * SLOTS);
	cr_assert_eq(tb_topic_end(stage->topic), 0);
	cr_assert(scene_poll_while(stage->subscriber, &stage->seen.ended));
	cr_expect_eq(stage->seen.records + stage->seen.lost, stage->published);
	cr_expect_eq(stage->seen.last, stage->published);
	cr_expect_eq(stage->seen.wrong, 0);
}

ParameterizedTestParameters(memory, changed_field_is_never_delivered_and_is_accounted_for)
{
	static size_t which[] = { 0, 1 };

	return cr_make_param_array(size_t, which, 2);
}

ParameterizedTest(size_t *which, memory, changed_field_is_never_delivered_and_is_accounted_for)
{
	uint64_t taken = 0, caught = 0;

	for (int i = 0; i < STAGES; i++) {
		struct stage stage;

		stage_open(&stage, schemes[*which], 0, 0);
		attack(&stage, RAW);
		taken += stage.seen.records;
		caught += refused(&stage);
		cr_expect_eq(stage.seen.wrong, 0);
		/* A reader in place is never lapped here. A reader by READ may be: it seldom reads
		 * the progress line. */
		cr_expect(*which != 0 || stage.seen.overrun == 0);
		cr_expect_not(stage.seen.ended);
		read_to_the_end(&stage);
		stage_close(&stage);
	}
	/* Otherwise nothing was read during damage. */
	cr_expect(taken >= STAGES * 50 && caught >= STAGES,
		  "%" PRIu64 " records delivered, %" PRIu64 " copies refused", taken, caught);
}

ParameterizedTestParameters(memory, changed_field_with_valid_check_is_harmless)
{
	static size_t which[] = { 0, 1 };

	return cr_make_param_array(size_t, which, 2);
}

ParameterizedTest(size_t *which, memory, changed_field_with_valid_check_is_harmless)
{
	for (int i = 0; i < STAGES; i++) {
		struct stage stage;

		stage_open(&stage, schemes[*which], 0, 0);
		attack(&stage, SEALED);
		stage_close(&stage);
	}
}

Test(memory, changed_field_of_unchecked_topic_is_harmless)
{
	for (int i = 0; i < STAGES; i++) {
		struct stage stage;

		stage_open(&stage, "shm", TB_TOPIC_UNCHECKED, 0);
		attack(&stage, RAW);
		stage_close(&stage);
	}
}

ParameterizedTestParameters(memory, record_that_stays_damaged_is_one_gap)
{
	static size_t which[] = { 0, 1 };

	return cr_make_param_array(size_t, which, 2);
}

ParameterizedTest(size_t *which, memory, record_that_stays_damaged_is_one_gap)
{
	struct stage stage;
	struct structure what;

	stage_open(&stage, schemes[*which], 0, 0);
	publish(&stage, 10);
	what = slot_of(&stage, 5);
	*((char *)stage.topic->memory.base + what.offset + RECORD_HEADER_BYTES) ^= 1;
	cr_assert_eq(tb_topic_end(stage.topic), 0);
	cr_assert(scene_poll_while(stage.subscriber, &stage.seen.ended));
	cr_expect_eq(stage.seen.records, 9);
	cr_expect_eq(stage.seen.lost, 1);
	cr_expect_eq(stage.seen.wrong + stage.seen.overrun, 0);
	stage_close(&stage);
}

/* -- damage during reads ------------------------------------------------------------------------
 */

/* The thread that does damage. While it runs, only it draws random numbers. */
struct vandal {
	const struct stage *stage;
	int sealed;
	_Atomic bool stop;
};

static void *vandal_run(void *user)
{
	struct vandal *vandal = user;

	while (!vandal->stop) {
		const struct structure what = structure_draw(vandal->stage);

		damage(vandal->stage, &what, vandal->sealed);
		usleep((useconds_t)random_below(&state, PAUSE_US));
	}
	return NULL;
}

/* The publisher writes names only once. */
static void names_mend(const struct stage *stage)
{
	directory_store(stage->topic->directory, 0, "A", stage->topic->directory_salt);
	directory_store(stage->topic->directory, 1, "B", stage->topic->directory_salt);
}

static const struct manner {
	const char *scheme;
	uint32_t topic, subscription; /* flags */
	int sealed;
} manners[] = {
	{ "shm", 0, 0, RAW },
	{ "bytewise", 0, 0, RAW },
	{ "shm", 0, 0, SEALED },
	{ "bytewise", 0, 0, SEALED },
	{ "bytewise", 0, TB_STRICT, RAW },
	{ "bytewise", 0, TB_STRICT, SEALED },
	{ "shm", TB_TOPIC_UNCHECKED, 0, RAW },
};
#define MANNERS (sizeof(manners) / sizeof(manners[0]))

/* Records delivered and copies refused during damage. */
struct sum {
	uint64_t taken, refused;
};

static bool is_enough(const struct sum *sum)
{
	return sum->taken >= TAKEN_LEAST && sum->refused >= REFUSED_LEAST;
}

static struct sum sum_with(const struct sum *sum, const struct stage *stage)
{
	return (struct sum){ sum->taken + stage->seen.records, sum->refused + refused(stage) };
}

/* Reads until there is enough. Believed damage may end the topic, or give it a head beyond what was
 * published: then no more records can come. */
static void read_meanwhile(struct stage *stage, bool believed, const struct sum *before,
			   uint64_t until_ms)
{
	struct sum now = *before;

	for (unsigned int round = 0; !is_enough(&now); round++) {
		if (round % 50 == 0)
			publish(stage, 1 + round / 50 % 40);
		if (round % 64 == 0)
			names_mend(stage);
		cr_assert_geq(tb_poll(stage->subscriber, 1000), 0);
		if (believed && (stage->seen.ended || stage->seen.last > stage->published))
			return;
		now = sum_with(before, stage);
		cr_assert_lt(scene_now_ms(), until_ms,
			     "%" PRIu64 " records delivered, %" PRIu64 " copies refused", now.taken,
			     now.refused);
	}
}

static void attack_meanwhile(const struct manner *manner, struct sum *sum, uint64_t until_ms)
{
	const bool believed = manner->sealed == SEALED || manner->topic & TB_TOPIC_UNCHECKED;
	struct stage stage;
	struct vandal vandal = { .stage = &stage, .sealed = manner->sealed };
	pthread_t thread;

	stage_open(&stage, manner->scheme, manner->topic, manner->subscription);
	cr_assert_eq(pthread_create(&thread, NULL, vandal_run, &vandal), 0);
	read_meanwhile(&stage, believed, sum, until_ms);
	vandal.stop = true;
	pthread_join(thread, NULL);
	cr_expect_not(stage.seen.backward);
	cr_expect_not(stage.seen.impossible);
	*sum = sum_with(sum, &stage);
	if (!believed) {
		cr_expect_eq(stage.seen.wrong, 0);
		names_mend(&stage);
		read_to_the_end(&stage);
	}
	stage_close(&stage);
}

ParameterizedTestParameters(memory, fields_that_change_during_reads_are_harmless)
{
	static size_t which[] = { 0, 1, 2, 3, 4, 5, 6 };

	static_assert(sizeof(which) / sizeof(which[0]) == MANNERS, "an index for each manner");
	return cr_make_param_array(size_t, which, MANNERS);
}

ParameterizedTest(size_t *which, memory, fields_that_change_during_reads_are_harmless)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	struct sum sum = { 0, 0 };

	while (!is_enough(&sum))
		attack_meanwhile(&manners[*which], &sum, until_ms);
}

/* -- random bytes -------------------------------------------------------------------------------
 */

static void scramble(void *memory, size_t bytes)
{
	for (size_t i = 0; i < bytes / 8; i++) {
		const uint64_t word = random_draw(&state);

		words_store((char *)memory + i * 8, &word, sizeof(word));
	}
}

ParameterizedTestParameters(memory, random_bytes_yield_no_records)
{
	static size_t which[] = { 0, 1, 2 };

	return cr_make_param_array(size_t, which, 3);
}

ParameterizedTest(size_t *which, memory, random_bytes_yield_no_records)
{
	const bool unchecked = *which == 2;
	struct stage stage;
	uint64_t before;

	stage_open(&stage, schemes[*which % 2], unchecked ? TB_TOPIC_UNCHECKED : 0, 0);
	publish(&stage, 10);
	cr_assert(scene_poll_until(stage.subscriber, &stage.seen.records, 10));
	before = stage.seen.records;
	for (int round = 0; round < 200; round++) {
		scramble((char *)stage.topic->memory.base + REGION_PAGE,
			 stage.layout.bytes - REGION_PAGE);
		poll_some(&stage);
	}
	cr_expect(unchecked || stage.seen.records == before);
	cr_expect_not(stage.seen.impossible);
	stage_close(&stage);
}

ParameterizedTestParameters(memory, random_header_is_refused_with_reason)
{
	static size_t which[] = { 0, 1 };

	return cr_make_param_array(size_t, which, 2);
}

ParameterizedTest(size_t *which, memory, random_header_is_refused_with_reason)
{
	struct tb_publisher *publisher = scene_publisher(schemes[*which]);
	struct tb_topic *topic = scene_topic(publisher, "t", SLOTS, 0);
	struct tb_subscriber *subscriber = scene_subscriber(schemes[*which], 0);
	struct tb_subscription_options options = { .size = sizeof(options),
						   .on_record = on_record };
	struct tb_subscription *subscription;

	for (int round = 0; round < 20; round++) {
		scramble(topic->memory.base, sizeof(struct region_header));
		cr_assert_eq(tb_subscribe(subscriber, "t", &options, &subscription), -EPROTO);
		cr_expect_not_null(strstr(tb_error(), "topic t: "), "%s", tb_error());
	}
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
}

/* Cuts the connection: a subscriber compares the header after each connect. */
static void cut(const struct stage *stage)
{
	const struct tb_subscriber *subscriber = stage->subscriber;
	const int fd = watched_socket(subscriber->ops->link_fd(subscriber->link));

	cr_assert_eq(shutdown(fd, SHUT_RDWR), 0);
	while (subscriber->welcomed)
		cr_assert_geq(tb_poll(stage->subscriber, 1000), 0);
}

static bool is_read(const struct tb_source *source)
{
	return source && !source->orphan && source->state == SOURCE_RUNNING;
}

ParameterizedTestParameters(memory, random_header_is_refused_on_the_next_connection)
{
	static size_t which[] = { 0, 1, 2 };

	return cr_make_param_array(size_t, which, 3);
}

/* For an unchecked topic the header alone identifies the memory. */
ParameterizedTest(size_t *which, memory, random_header_is_refused_on_the_next_connection)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	struct stage stage;

	stage_open(&stage, schemes[*which % 2], *which == 2 ? TB_TOPIC_UNCHECKED : 0, 0);
	publish(&stage, 10);
	cr_assert(scene_poll_until(stage.subscriber, &stage.seen.records, 10));
	cut(&stage);
	while (!is_read(stage.subscriber->table[0])) {
		cr_assert_geq(tb_poll(stage.subscriber, 1000), 0);
		cr_assert_lt(scene_now_ms(), until_ms);
	}
	publish(&stage, 5);
	cr_assert(scene_poll_until(stage.subscriber, &stage.seen.records, 15));
	scramble(stage.topic->memory.base, sizeof(struct region_header));
	cut(&stage);
	while (!stage.seen.refused) {
		cr_assert_geq(tb_poll(stage.subscriber, 1000), 0);
		cr_assert_not(is_read(stage.subscriber->table[0]),
			      "memory with a random header is read");
		cr_assert_lt(scene_now_ms(), until_ms);
	}
	publish(&stage, 5);
	poll_some(&stage);
	cr_expect_eq(stage.seen.records, 15);
	cr_expect_eq(stage.seen.lost + stage.seen.wrong, 0);
	stage_close(&stage);
}

ParameterizedTestParameters(memory, random_bus_page_is_stale_until_it_is_valid_again)
{
	static size_t which[] = { 0, 1 };

	return cr_make_param_array(size_t, which, 2);
}

ParameterizedTest(size_t *which, memory, random_bus_page_is_stale_until_it_is_valid_again)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	struct stage stage;

	stage_open(&stage, schemes[*which], 0, 0);
	while (!stage.seen.stale) {
		scramble(stage.publisher->realms[0].page.base,
			 stage.publisher->realms[0].page.bytes);
		cr_assert_geq(tb_poll(stage.subscriber, 1000), 0);
		cr_assert_lt(scene_now_ms(), until_ms);
	}
	cr_assert(scene_poll_while(stage.subscriber, &stage.seen.live));
	publish(&stage, 5);
	cr_assert(scene_poll_until(stage.subscriber, &stage.seen.records, 5));
	stage_close(&stage);
}
