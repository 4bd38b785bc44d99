/* SPDX-License-Identifier: Apache-2.0 */
/* T-I3  The queue is shown between two messages only. So when the feed's thread finds it empty, it
 *       has all outputs of each message so far.
 * T-I4  The entry of the end is the last, and no reading thread outlives reading_take.
 * T-I5  `idle` follows a message or an output. So the topics of a source that hangs become stale,
 *       as with a single thread. */
#include "publisher/feeds/reading.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"
#include "publisher/feeds/cores.h"
#include "publisher/feeds/queue.h"
#include "tickbus/error.h"

enum what { OUTPUT = 1, NO_START, DEFECT, END };

/* Behind an entry DEFECT. */
struct defect {
	uint64_t offset;
	char why[READING_WHY_BYTES];
};

/* An entry of the queue, and behind it an output's data. A quote or a trade takes one line. */
struct entry {
	uint8_t what;
	uint8_t kind;
	uint16_t length;
	uint32_t select_symbol; /* SELECT_SHIFT bits of the symbol */
	uint64_t message;
	uint64_t time_ns;
};

#define SELECT_SHIFT 24
#define WAIT_NS      100000 /* of the feed's thread for a batch; longer while nothing comes */

static_assert(sizeof(struct entry) == 24, "behind the queue's head, with 32 bytes of data: a line");
static_assert(MARKET_SYMBOLS < 1 << SELECT_SHIFT, "symbols of an entry");

struct reading {
	struct reading_options options;
	struct queue *queue;
	struct protocol *protocol;
	struct days *days;
	uint64_t message; /* before this day */
	pthread_t thread;
	/* The reading thread writes this for each message, so in lines apart: */
	_Alignas(64) struct reading_place place;
	bool defective;            /* a message could not be used as it is */
	_Atomic uint64_t messages; /* place.message, for the feed's thread */
	_Alignas(64) int result;
	char error[ERROR_BYTES];
};

int reading_open(struct reading **out, const struct reading_options *options)
{
	struct reading *reading = aligned_alloc(64, sizeof(*reading));
	int result;

	*out = NULL;
	if (!reading)
		return error_set(ENOMEM, "no memory");
	memset(reading, 0, sizeof(*reading));
	reading->options = *options;
	result = queue_open(&reading->queue, READING_BYTES);
	if (result < 0) {
		free(reading);
		return result;
	}
	*out = reading;
	return 0;
}

void reading_close(struct reading *reading)
{
	if (!reading)
		return;
	queue_free(reading->queue);
	free(reading);
}

/* -- the reading thread -------------------------------------------------------------------------
 */

static struct entry *room(struct reading *reading, enum what what, size_t bytes)
{
	struct entry *entry = queue_room(reading->queue, sizeof(*entry) + bytes);

	if (!entry)
		return NULL;
	entry->what = (uint8_t)what;
	entry->message = reading->place.message;
	return entry;
}

void reading_output(struct reading *reading, const struct market_output *made)
{
	struct entry *entry = room(reading, OUTPUT, made->length);

	if (!entry)
		return;
	entry->kind = made->kind;
	entry->length = made->length;
	entry->select_symbol = (uint32_t)made->select << SELECT_SHIFT | made->symbol;
	entry->time_ns = made->time_ns;
	memcpy(entry + 1, made->data, made->length);
	queue_add(reading->queue);
}

void reading_no_start(struct reading *reading)
{
	const struct day_marks *marks = &reading->protocol->marks;
	struct entry *entry = room(reading, NO_START, sizeof(*marks));

	if (!entry)
		return;
	memcpy(entry + 1, marks, sizeof(*marks));
	queue_add(reading->queue);
}

static void put_defect(struct reading *reading, uint64_t offset)
{
	struct defect *defect;
	struct entry *entry = reading->defective ? NULL : room(reading, DEFECT, sizeof(*defect));

	reading->defective = true;
	if (!entry)
		return;
	defect = (struct defect *)(entry + 1);
	defect->offset = offset;
	snprintf(defect->why, sizeof(defect->why), "%s", market_why(reading->protocol->market));
	queue_add(reading->queue);
}

static void put_end(struct reading *reading)
{
	if (room(reading, END, 0))
		queue_add(reading->queue);
	queue_show(reading->queue);
}

static bool to_end(const struct reading *reading)
{
	return queue_closed(reading->queue) ||
	       atomic_load_explicit(reading->options.interrupted, memory_order_relaxed);
}

static int read_all(struct reading *reading)
{
	struct reading_place *place = &reading->place;
	struct source_message message;
	unsigned int batch = 0;
	int result;

	while ((result = days_next(reading->days, &message)) == 1) {
		place->message++;
		atomic_store_explicit(&reading->messages, place->message, memory_order_relaxed);
		if (message.ahead)
			protocol_expect(reading->protocol, message.ahead, message.ahead_length);
		result = protocol_message(reading->protocol, &message);
		if (result == PROTOCOL_NEXT_DAY) {
			atomic_store_explicit(&reading->messages, --place->message,
					      memory_order_relaxed);
			days_keep(reading->days, &message);
		}
		if (result == PROTOCOL_DEFECT)
			put_defect(reading, message.offset);
		else if (result != 0)
			return result;
		if (++batch < READING_BATCH && !queue_crowded(reading->queue))
			continue;
		batch = 0;
		queue_show_lazily(reading->queue);
		if (to_end(reading))
			return -EINTR;
	}
	return result;
}

static void *thread_run(void *user)
{
	struct reading *reading = user;

	pthread_setname_np(pthread_self(), "reading");
	cores_avoid(reading->options.cpu);
	reading->result = read_all(reading);
	reading->place.time_ns = reading->protocol->marks.time_ns;
	if (reading->result < 0)
		snprintf(reading->error, sizeof(reading->error), "%s", tb_error());
	put_end(reading);
	return NULL;
}

/* -- the feed's thread --------------------------------------------------------------------------
 */

static void give_output(struct reading *reading, const struct entry *entry)
{
	const uint32_t symbol = entry->select_symbol & ((1u << SELECT_SHIFT) - 1);
	const struct market_output made = {
		.select = (enum market_select)(entry->select_symbol >> SELECT_SHIFT),
		.symbol = symbol,
		.name = market_name(reading->protocol->market, symbol),
		.time_ns = entry->time_ns,
		.data = entry + 1,
		.length = entry->length,
		.kind = entry->kind,
	};

	reading->options.output(reading->options.user, entry->message, &made);
}

static void give_no_start(const struct reading *reading, const struct entry *entry)
{
	struct day_marks marks;

	memcpy(&marks, entry + 1, sizeof(marks));
	reading->options.no_start(reading->options.user, &marks);
}

static void give_defect(const struct reading *reading, const struct entry *entry)
{
	const struct defect *defect = (const struct defect *)(entry + 1);

	reading->options.defect(reading->options.user, defect->offset, defect->why);
}

/* Gives all outputs up to the end, a failure, or an interruption between two messages. *place: the
 * message and time of the last output. */
static int give_all(struct reading *reading, struct reading_place *place)
{
	const struct reading_options *options = &reading->options;
	unsigned int batch = 0;
	uint64_t wait_ns = WAIT_NS, read, read_before = 0;

	for (;;) {
		const struct entry *entry = queue_first(reading->queue);

		if (!entry || entry->what != OUTPUT || entry->message != place->message) {
			const int result = options->ended(options->user);

			if (result < 0)
				return result;
			if (atomic_load_explicit(options->interrupted, memory_order_relaxed))
				return -EINTR;
			read = atomic_load_explicit(&reading->messages, memory_order_relaxed);
			if (entry ? ++batch >= options->batch : batch > 0 || read != read_before) {
				batch = 0;
				read_before = read;
				options->idle(options->user);
			}
		}
		if (!entry) {
			queue_wait(reading->queue, wait_ns, options->wake_fd);
			wait_ns = 2 * wait_ns < options->touch_ns ? 2 * wait_ns : options->touch_ns;
			continue;
		}
		wait_ns = WAIT_NS;
		if (entry->what == END) {
			queue_drop(reading->queue);
			return 0;
		}
		place->message = entry->message;
		if (entry->what == OUTPUT) {
			place->time_ns = entry->time_ns - reading->protocol->midnight_ns;
			give_output(reading, entry);
		} else if (entry->what == NO_START) {
			give_no_start(reading, entry);
		} else {
			give_defect(reading, entry);
		}
		queue_drop(reading->queue);
	}
}

int reading_start(struct reading *reading, struct protocol *protocol, struct days *days,
		  uint64_t message)
{
	int code;

	reading->place = (struct reading_place){ .message = message };
	reading->defective = false;
	atomic_store_explicit(&reading->messages, message, memory_order_relaxed);
	reading->protocol = protocol;
	reading->days = days;
	reading->message = message;
	code = pthread_create(&reading->thread, NULL, thread_run, reading);
	return code == 0 ? 0 : error_set(code, "cannot create a thread: %s", strerror(code));
}

int reading_take(struct reading *reading, struct reading_place *place)
{
	int result;

	*place = (struct reading_place){ .message = reading->message };
	result = give_all(reading, place);
	if (result < 0)
		queue_close(reading->queue);
	pthread_join(reading->thread, NULL);
	if (result < 0)
		return result;
	*place = reading->place;
	return reading->result < 0 ? error_set(-reading->result, "%s", reading->error)
				   : reading->result;
}
