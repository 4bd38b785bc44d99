/* SPDX-License-Identifier: Apache-2.0 */
/* stress [--records N] [--seconds N] [--seed N] [--stalls N] [VARIANT...]
 *
 * Publishes N records in all, shared among the variants, or as many as fit in each variant's
 * seconds. Reports in TAP. Every delivered record is right. Every published record is delivered or
 * reported lost exactly once to each reader. While records are written, each reader gets enough of
 * them, and refuses enough copies. */
#include "tests/stress/stress.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/bytewise.h"
#include "tests/support/random.h"

#define BATCH   16    /* records per flush in the variants with batches */
#define LATE_MS 60000 /* more time for readers that have not received enough */

#define SMALL TRUTH_PAYLOAD_SMALL, 1024
#define LARGE TRUTH_PAYLOAD_LARGE, 256
#define LONG  TRUTH_PAYLOAD_SMALL, 16384 /* so that a READ returns before it is lapped */

static const struct variant variants[] = {
	{ "shm-64-unchecked", "shm", SMALL, TB_TOPIC_UNCHECKED, 250, 0 },
	{ "shm-64-unchecked-batches", "shm", SMALL, TB_TOPIC_UNCHECKED | TB_TOPIC_MANUAL_FLUSH, 350,
	  0 },
	{ "shm-64-checked", "shm", SMALL, 0, 150, 0 },
	{ "shm-64-strict", "shm", SMALL, 0, 20, TB_STRICT },
	{ "shm-4096-unchecked", "shm", LARGE, TB_TOPIC_UNCHECKED, 15, 0 },
	{ "shm-4096-checked", "shm", LARGE, 0, 10, 0 },
	{ "bytewise-64", "bytewise", LONG, 0, 80, 0 },
	{ "bytewise-64-strict", "bytewise", LONG, 0, 40, TB_STRICT },
	{ "bytewise-64-batches", "bytewise", LONG, TB_TOPIC_MANUAL_FLUSH, 75, 0 },
	{ "bytewise-4096", "bytewise", LARGE, 0, 5, 0 },
	{ "bytewise-4096-strict", "bytewise", LARGE, 0, 5, TB_STRICT },
};
#define VARIANTS (sizeof(variants) / sizeof(variants[0]))

struct options {
	uint64_t records, seconds, seed;
	uint64_t stalls; /* the least in each variant */
	bool chosen[VARIANTS];
	uint64_t published; /* in all variants */
};

_Thread_local struct party *stress_me;

uint64_t stress_draw(struct party *party)
{
	party->random =
		party->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return party->random >> 33;
}

uint64_t stress_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void stress_await(struct party *party, uint64_t n)
{
	struct stress *stress = party->stress;

	atomic_fetch_add(&stress->waiting, 1);
	atomic_store(&party->awaits, n);
	while (atomic_load(&stress->written) < n && !atomic_load(&stress->over))
		sched_yield();
	atomic_store(&party->awaits, 0);
	atomic_fetch_sub(&stress->waiting, 1);
}

/* -- a variant ----------------------------------------------------------------------------------
 */

static bool go_on(const struct stress *stress, uint64_t n)
{
	if (stress->until_ms)
		return n % 1024 || stress_now_ms() < stress->until_ms;
	return n < stress->records;
}

static bool must_refuse(const struct variant *variant)
{
	return strcmp(variant->scheme, "shm") == 0 || !(variant->subscribe & TB_STRICT);
}

static uint64_t refused(const struct stress *stress)
{
	uint64_t sum = 0;

	for (int i = 0; i < VALUES; i++)
		sum += atomic_load_explicit(&stress->party[i].refused, memory_order_relaxed);
	return must_refuse(stress->variant) ? sum : REFUSED_MIN;
}

/* Whether readers still need records to be written: they have received or refused too few. A reader
 * that finishes before has found a wrong record. */
static bool go_on_for_readers(struct stress *stress, uint64_t n, uint64_t *late_ms)
{
	const bool content =
		atomic_load_explicit(&stress->content, memory_order_relaxed) == READERS;

	if (atomic_load(&stress->finished) > 0 || (content && refused(stress) >= REFUSED_MIN))
		return false;
	if (*late_ms == 0)
		*late_ms = stress_now_ms() + LATE_MS;
	atomic_store_explicit(&stress->late, !content, memory_order_relaxed);
	return n % 1024 || stress_now_ms() < *late_ms;
}

static bool is_up_to(const struct party *party, uint64_t n)
{
	return atomic_load(&party->next) > n || atomic_load(&party->awaits) > n ||
	       atomic_load(&party->content);
}

/* A reader that is lapped all the time receives nothing. So after the requested records the writer
 * writes more in bursts, and rests in between until the readers have caught up. A reader refuses
 * copies only when it is lapped. So once all have received enough, the writer does not rest. */
static uint64_t rest(struct stress *stress, uint64_t n, uint64_t late_ms)
{
	tb_flush(stress->topic);
	for (int i = 0; i < VALUES; i++)
		while (!is_up_to(&stress->party[i], n) && stress_now_ms() < late_ms)
			sched_yield();
	return n + 1 + stress_draw(stress_me) % stress->variant->slots;
}

static void write_all(struct stress *stress)
{
	const bool batches = stress->variant->flags & TB_TOPIC_MANUAL_FLUSH;
	uint64_t words[TRUTH_PAYLOAD_LARGE / 8];
	struct tb_update update;
	uint64_t n = 0, late_ms = 0, rest_at = 0;

	stress_me = &stress->party[WRITER];
	pthread_barrier_wait(&stress->joined);
	stress_stall(stress_me);
	while (go_on(stress, n) || go_on_for_readers(stress, n, &late_ms)) {
		if (atomic_load_explicit(&stress->late, memory_order_relaxed) && n >= rest_at)
			rest_at = rest(stress, n, late_ms);
		truth_update(&stress->truth, ++n, &update, words);
		if (tb_publish(stress->topic, &update) < 0)
			tally_complain(&stress_me->tally, "tb_publish: %s", tb_error());
		if (batches && n % BATCH == 0)
			tb_flush(stress->topic);
		atomic_store_explicit(&stress->written, n, memory_order_release);
	}
	if (refused(stress) < REFUSED_MIN)
		tally_complain(&stress_me->tally,
			       "found %" PRIu64 " copies refused, expected %d or more",
			       refused(stress), REFUSED_MIN);
	stress_stall_no_more();
	tb_topic_end(stress->topic);
	atomic_store(&stress->over, true);
}

static int stress_open(struct stress *stress, const struct options *options)
{
	const struct variant *variant = stress->variant;
	struct tb_publisher_options how = { .size = sizeof(how),
					    .name = "stress",
					    .listen = &stress->address,
					    .listen_count = 1,
					    .stale_ms = 60000,
					    .exit_wait_ms = UINT32_MAX };
	int result;

	stress->truth = (struct truth){ .topic = 1, .payload_max = variant->payload_max };
	for (int i = 0; i <= READERS; i++)
		stress->party[i] = (struct party){
			.stress = stress,
			.manner = (enum manner)i,
			.random = options->seed + (uint64_t)i,
			.tally = { .truth = stress->truth,
				   .slots = variant->slots,
				   .written = &stress->written },
		};
	pthread_barrier_init(&stress->joined, NULL, READERS + 1);
	result = tb_publisher_open(&stress->publisher, &how);
	if (result == 0)
		result = truth_topic(stress->publisher, "t", variant->payload_max, variant->slots,
				     variant->flags, &stress->topic);
	return result;
}

/* The first complaint of any party, or NULL. */
static const char *stress_run(struct stress *stress, uint64_t stalls_min)
{
	const char *wrong = NULL;
	uint64_t stalls = 0;

	for (int i = 0; i < READERS; i++)
		if (pthread_create(&stress->party[i].thread, NULL, stress_read, &stress->party[i]))
			abort();
	write_all(stress);
	for (int i = 0; i < READERS; i++)
		pthread_join(stress->party[i].thread, NULL);
	for (int i = 0; i <= READERS; i++)
		stalls += stress->party[i].stalls;
	if (stalls < stalls_min)
		tally_complain(&stress->party[WRITER].tally,
			       "found %" PRIu64 " stalls, expected %" PRIu64 " or more", stalls,
			       stalls_min);
	for (int i = 0; i <= READERS && !wrong; i++)
		if (stress->party[i].tally.wrong[0])
			wrong = stress->party[i].tally.wrong;
	return wrong;
}

static bool stress_variant(const struct variant *variant, struct options *options, int number)
{
	static const char *const manners[] = { "steady", "lagging", "sleeping", "values",
					       "writer" };
	const uint64_t began_ms = stress_now_ms();
	struct stress *stress = aligned_alloc(64, sizeof(*stress));
	char address[32];
	const char *wrong;

	if (!stress)
		abort();
	memset(stress, 0, sizeof(*stress));
	snprintf(address, sizeof(address), "%s:stress", variant->scheme);
	stress->variant = variant;
	stress->address = address;
	stress->records = options->records * variant->share / 1000 + 1;
	stress->until_ms = options->seconds ? began_ms + options->seconds * 1000 : 0;
	wrong = stress_open(stress, options) < 0 ? tb_error() : stress_run(stress, options->stalls);
	printf("%sok %d - %s\n", wrong ? "not " : "", number, variant->name);
	if (wrong)
		printf("# %s\n", wrong);
	options->published += stress->topic ? tb_topic_sequence(stress->topic) : 0;
	printf("# %" PRIu64 " records in %" PRIu64 " ms\n", atomic_load(&stress->written),
	       stress_now_ms() - began_ms);
	for (int i = 0; i < READERS; i++)
		printf("# %-8s %10" PRIu64 " delivered, %10" PRIu64 " lost in %" PRIu64
		       " gaps, %" PRIu64 " values, %" PRIu64 " newer each, %" PRIu64
		       " copies refused\n",
		       manners[i], stress->party[i].tally.delivered, stress->party[i].tally.lost,
		       stress->party[i].tally.gaps, stress->party[i].values, stress->party[i].fresh,
		       atomic_load(&stress->party[i].refused));
	fflush(stdout);
	tb_publisher_close(stress->publisher);
	free(stress);
	return wrong == NULL;
}

/* -- the program --------------------------------------------------------------------------------
 */

static int usage(void)
{
	fprintf(stderr,
		"usage: stress [--records N] [--seconds N] [--seed N] [--stalls N] [VARIANT...]\n"
		"variants:");
	for (size_t i = 0; i < VARIANTS; i++)
		fprintf(stderr, " %s", variants[i].name);
	fprintf(stderr, "\n");
	return 2;
}

static bool choose(struct options *options, const char *name)
{
	for (size_t i = 0; i < VARIANTS; i++)
		if (strcmp(variants[i].name, name) == 0)
			return options->chosen[i] = true;
	return false;
}

/* The number of variants chosen, 0 for bad usage. */
static int options_read(struct options *options, int argc, char **argv)
{
	int count = 0;

	for (int i = 1; i < argc; i++) {
		uint64_t *number = strcmp(argv[i], "--records") == 0   ? &options->records
				   : strcmp(argv[i], "--seconds") == 0 ? &options->seconds
				   : strcmp(argv[i], "--seed") == 0    ? &options->seed
				   : strcmp(argv[i], "--stalls") == 0  ? &options->stalls
								       : NULL;

		if (number && ++i < argc)
			*number = strtoull(argv[i], NULL, 0);
		else if (number || !choose(options, argv[i]))
			return 0;
		else
			count++;
	}
	for (size_t i = 0; i < VARIANTS && count == 0; i++)
		options->chosen[i] = true;
	return count ? count : (int)VARIANTS;
}

/* Whether the topics have counted as many records as requested. */
static bool all_published(const struct options *options, int number)
{
	uint64_t expected = 0;
	bool good;

	for (size_t i = 0; i < VARIANTS && !options->seconds; i++)
		expected += options->chosen[i] ? options->records * variants[i].share / 1000 : 0;
	good = options->published >= expected;
	printf("%sok %d - as many records as requested\n# %" PRIu64
	       " records in all, expected %" PRIu64 " or more\n",
	       good ? "" : "not ", number, options->published, expected);
	return good;
}

int main(int argc, char **argv)
{
	struct options options = { .records = 100000000, .seed = random_seed() };
	const int count = options_read(&options, argc, argv);
	char folder[] = "/tmp/tickbus-stress-XXXXXX", lock[64];
	bool good = true;
	int number = 0;

	if (count == 0)
		return usage();
	if (!mkdtemp(folder) || setenv("TICKBUS_RUNTIME_DIR", folder, 1) < 0)
		return 1;
	printf("1..%d\n# --seed %" PRIu64 "\n", count + 1, options.seed);
	bytewise_add(options.seed);
	for (size_t i = 0; i < VARIANTS; i++)
		if (options.chosen[i])
			good &= stress_variant(&variants[i], &options, ++number);
	good &= all_published(&options, ++number);
	snprintf(lock, sizeof(lock), "%s/stress.lock", folder);
	unlink(lock);
	rmdir(folder);
	return good ? 0 : 1;
}
