/* SPDX-License-Identifier: Apache-2.0 */
/* The feed's thread of a source that is read by another thread. */
#include <criterion/criterion.h>
#include <errno.h>
#include <semaphore.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "publisher/feeds/itch/itch.h"
#include "publisher/feeds/itch/itch_protocol.h"
#include "publisher/feeds/reading.h"

#define MESSAGES 3
#define LOOKS    50 /* of the feed's thread, after which the source goes on */

static sem_t hung;
static _Atomic bool interrupted;
static struct reading *reading;
static unsigned int given, outputs, looks, idles;

static int next(struct source *source, struct source_message *message)
{
	static uint8_t bytes[ITCH_LENGTH_MAX];
	const unsigned int number = ++given;
	struct itch_message add = {
		.type = 'A',
		.locate = 5,
		.time_ns = number,
		.add = { .reference = number, .side = 'B', .shares = 100, .price = 10000 },
	};

	(void)source;
	if (number > MESSAGES) {
		sem_wait(&hung);
		return 0;
	}
	memcpy(add.add.stock, "ACME    ", ITCH_STOCK_BYTES);
	*message = (struct source_message){ .bytes = bytes,
					    .length = (size_t)itch_encode(&add, bytes) };
	return 1;
}

static const char *changed(struct source *source)
{
	(void)source;
	return NULL;
}

static void closed(struct source *source)
{
	(void)source;
}

static void on_made(void *user, const struct market_output *output)
{
	(void)user;
	reading_output(reading, output);
}

static void on_no_start(void *user, const struct day_marks *marks)
{
	(void)user;
	(void)marks;
}

static void on_defect(void *user, uint64_t offset, const char *why)
{
	(void)user;
	(void)offset;
	(void)why;
}

static void on_output(void *user, uint64_t message, const struct market_output *output)
{
	(void)user;
	(void)message;
	(void)output;
	outputs++;
}

/* The source goes on after the feed's thread has looked often enough. */
static int on_ended(void *user)
{
	(void)user;
	if (++looks == LOOKS)
		sem_post(&hung);
	return 0;
}

static void on_idle(void *user)
{
	(void)user;
	idles++;
}

/* A flush without a message would say that the feed lives. */
Test(reading, source_that_hangs_is_followed_by_no_flush)
{
	static const struct source_operations operations = { next, changed, closed };
	struct source source = { .operations = &operations, .name = "hanging" };
	struct days days = { .source = &source };
	struct reading_options options = { .cpu = -1,
					   .interrupted = &interrupted,
					   .wake_fd = eventfd(0, EFD_CLOEXEC),
					   .touch_ns = 1000000,
					   .no_start = on_no_start,
					   .defect = on_defect,
					   .output = on_output,
					   .ended = on_ended,
					   .idle = on_idle,
					   .batch = 64 };
	const struct protocol_options of = { .wanted = 1u << MARKET_QUOTE, .output = on_made };
	struct reading_place place;
	struct protocol *protocol;

	cr_assert_eq(sem_init(&hung, 0, 0), 0);
	cr_assert_eq(reading_open(&reading, &options), 0);
	cr_assert_eq(protocol_open(&protocol, &itch_protocol, &of), 0);
	cr_assert_eq(reading_start(reading, protocol, &days, 0), 0);
	cr_assert_eq(reading_take(reading, &place), 0);
	cr_assert_eq(place.message, MESSAGES);
	cr_assert_eq(outputs, MESSAGES);
	cr_assert_geq(looks, LOOKS);
	cr_assert_leq(idles, 2 * MESSAGES, "found %u flushes for %d messages", idles, MESSAGES);
	protocol_close(protocol);
	reading_close(reading);
	close(options.wake_fd);
	sem_destroy(&hung);
}
