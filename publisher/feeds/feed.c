/* SPDX-License-Identifier: Apache-2.0 */
/* F-I1  Between two batches every record made so far is flushed.
 * F-I2  The feed's group is flushed after each batch, and every touch_ms while the feed waits for
 *       any reason. For a topic without a new record, this flush is the sign of life that keeps it
 *       from being stale. */
#include "publisher/feeds/feed.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>

#include "bus/error.h"
#include "bus/clock.h"
#include "publisher/feeds/cores.h"
#include "publisher/feeds/days.h"
#include "publisher/feeds/outputs.h"
#include "publisher/feeds/feed_say.h"

#define NS_PER_MS     1000000u
#define DAY_NS        UINT64_C(86400000000000)
#define START_LOOK_MS 10

struct feed {
	struct feed_options options;
	char *name;
	struct feed_say say;
	struct outputs *outputs;
	struct tb_topic **joined; /* the topics, as tb_publisher_joins takes them */
	struct protocol *protocol;
	struct source *source;
	struct reading *reading; /* NULL: this thread reads */
	bool apart;              /* a reading thread reads now, and uses what is above */
	struct pace pace;
	/* Written for each message, so in lines of their own: */
	_Alignas(64) uint64_t message; /* number of the current message, from 1 */
	struct days days;
	uint64_t last_ns; /* time of the last message of a day that was read */
	struct feed_day day;
	unsigned int day_number; /* from 0, in this reading of the source */
	bool incomplete;         /* a day lacked its beginning, its end, or something between */
	bool defective;          /* a message of this day could not be used as it is */
	bool paced;              /* the pace has begun */
	pthread_t thread;
	bool started;
	int result;
	_Atomic bool over;
};

#define feed_log(feed, level, ...) feed_say(&(feed)->say, level, __VA_ARGS__)

/* -- publishing ---------------------------------------------------------------------------------
 */

static void on_output(void *user, const struct market_output *made)
{
	struct feed *feed = user;

	if (feed->apart)
		reading_output(feed->reading, made);
	else
		outputs_take(feed->outputs, feed->message, made);
}

static void on_malformed(void *user, uint64_t offset, const char *message)
{
	const struct feed *feed = user;

	feed_log(feed, TB_LOG_WARNING, "%s: message at byte %llu: %s; skipped", feed->source->name,
		 (unsigned long long)offset, message);
}

static void flush(struct feed *feed)
{
	tb_group_flush(feed->options.group);
}

/* -- quality ------------------------------------------------------------------------------------
 */

/* In a message of its own. */
static void make_suspect(struct feed *feed, enum tb_quality_cause cause)
{
	tb_group_message(feed->options.group);
	for (size_t i = 0; i < feed->options.topic_count; i++)
		tb_topic_quality(feed->options.topics[i].topic, TB_QUALITY_SUSPECT, cause);
	flush(feed);
}

/* Whether a day was incomplete, and that counts as a failure. */
static bool feed_fails(const struct feed *feed)
{
	return feed->incomplete && feed->options.incomplete == FEED_FAIL;
}

static void report_suspect(struct feed *feed, enum tb_quality_cause cause, const char *text)
{
	feed->incomplete = true;
	feed_log(feed, feed_fails(feed) ? TB_LOG_ERROR : TB_LOG_WARNING,
		 "%s: %s; the feed's topics are suspect", feed->source->name, text);
	make_suspect(feed, cause);
}

/* Reports a day that lacks its beginning or its end. */
static void report_incomplete(struct feed *feed, enum tb_quality_cause cause,
			      const struct day_marks *marks)
{
	char text[DAY_MARKS_TEXT_BYTES];

	if (cause == TB_QUALITY_NO_START)
		day_marks_no_start(marks, feed->protocol->kind->start, text);
	else
		day_marks_no_end(marks, feed->protocol->kind->end, text);
	report_suspect(feed, cause, text);
}

/* The first message of a day that could not be used as it is makes the topics suspect; counters
 * have them all. Its own records come first. */
static void report_defect(struct feed *feed, uint64_t offset, const char *why)
{
	char text[READING_WHY_BYTES + 64];

	if (feed->defective)
		return;
	feed->defective = true;
	snprintf(text, sizeof(text), "message at byte %llu: %s", (unsigned long long)offset, why);
	report_suspect(feed, TB_QUALITY_MISSING, text);
}

static void on_no_start(void *user)
{
	struct feed *feed = user;

	if (feed->apart)
		reading_no_start(feed->reading);
	else
		report_incomplete(feed, TB_QUALITY_NO_START, &feed->protocol->marks);
}

/* At the end of the source: result 0, or the error that stopped it. A feed that must end has no
 * defect. */
static void note_end(struct feed *feed, int result)
{
	if (result == 0 && !feed->protocol->marks.ended)
		report_incomplete(feed, TB_QUALITY_NO_END, &feed->protocol->marks);
	else if (result < 0 && result != -EINTR)
		make_suspect(feed, result == -ENOMEM ? TB_QUALITY_MISSING : TB_QUALITY_DAMAGED);
}

/* -- waiting ------------------------------------------------------------------------------------
 */

/* Flushes and waits; false when the feed is to end. */
static bool wait_until(struct feed *feed, enum pace_wait how, uint64_t due_ns)
{
	const uint64_t touch_ns = (uint64_t)feed->options.touch_ms * NS_PER_MS;

	for (;;) {
		const uint64_t now_ns = clock_ns();
		const uint64_t next_ns = due_ns > now_ns + touch_ns ? now_ns + touch_ns : due_ns;

		flush(feed);
		if (!pace_until(&feed->pace, how, next_ns))
			return false;
		if (next_ns == due_ns)
			return true;
	}
}

static bool wait_for_subscribers(struct feed *feed)
{
	const uint32_t wanted = feed->options.start_subscribers;

	if (wanted)
		feed_log(feed, TB_LOG_INFO, "waits for %u subscribers", wanted);
	while (tb_publisher_joins(feed->options.publisher, feed->joined,
				  feed->options.topic_count) < wanted)
		if (!wait_until(feed, PACE_SLEEP, clock_ns() + START_LOOK_MS * (uint64_t)NS_PER_MS))
			return false;
	return true;
}

static bool interrupted(const struct feed *feed)
{
	return atomic_load_explicit(&feed->pace.interrupted, memory_order_relaxed);
}

/* -- reading ------------------------------------------------------------------------------------
 */

/* True if the pace begins with this message, or has begun. A message before `from` never waits: a
 * single wrong time before it must not begin the pace hours early. */
static bool is_paced(struct feed *feed, const struct protocol_time *time)
{
	const uint64_t from_ns = feed->options.from_ns, time_s = time->time_ns / 1000000000u;
	const bool by_trade = from_ns == FEED_FIRST_TRADE;

	if (!by_trade && time->time_ns < from_ns)
		return false;
	if (feed->paced)
		return true;
	if (by_trade && !time->is_trade)
		return false;
	feed->paced = true;
	feed_log(feed, TB_LOG_INFO, "runs at the set speed from %02u:%02u:%02u (message %llu)",
		 (unsigned int)(time_s / 3600), (unsigned int)(time_s / 60 % 60),
		 (unsigned int)(time_s % 60), (unsigned long long)feed->message + 1);
	return true;
}

/* A wrong time must not stop the feed for hours. */
static void report_jump(const struct feed *feed, const struct source_message *raw,
			uint64_t before_ns)
{
	char before[DAY_MARKS_TIME_BYTES], found[DAY_MARKS_TIME_BYTES];

	protocol_count_jump(feed->protocol);
	if (feed->pace.jumps_ahead > PROTOCOL_MALFORMED_REPORTED)
		return;
	day_marks_time(before_ns, before);
	day_marks_time(feed->pace.now.last_ns, found);
	feed_log(feed, TB_LOG_WARNING,
		 "%s: message at byte %llu: found the time %s behind a message of %s, expected at "
		 "most 1 hour between them; not waited for",
		 feed->source->name, (unsigned long long)raw->offset, found, before);
}

/* Waits until a message is due. */
static bool await_message(struct feed *feed, const struct source_message *raw)
{
	const uint64_t last_ns = feed->pace.now.last_ns, jumps = feed->pace.jumps_ahead;
	struct protocol_time time;
	uint64_t due_ns;

	if (!feed->protocol->kind->time(raw, &time) || !is_paced(feed, &time))
		return true;
	due_ns = pace_due(&feed->pace, time.time_ns);
	if (feed->pace.jumps_ahead != jumps)
		report_jump(feed, raw, last_ns);
	if (due_ns == 0 || clock_ns() >= due_ns)
		return true;
	return wait_until(feed, feed->options.wait, due_ns);
}

/* Publishes what is held of a message. A record that its topic had no room for makes the day
 * incomplete. */
static int end_message(struct feed *feed)
{
	const int result = outputs_end_message(feed->outputs);

	feed->incomplete |= result > 0;
	return result < 0 ? result : 0;
}

static int read_message(struct feed *feed, const struct source_message *message)
{
	int result, ended;

	if (message->ahead)
		protocol_expect(feed->protocol, message->ahead, message->ahead_length);
	result = protocol_message(feed->protocol, message);
	if (result == PROTOCOL_NEXT_DAY)
		return result;
	ended = end_message(feed);
	if (result == PROTOCOL_DEFECT)
		report_defect(feed, message->offset, market_why(feed->protocol->market));
	return result < 0 ? result : ended;
}

/* The message is due, or begins another day. False: the feed is to end. */
static bool may_process(struct feed *feed, const struct source_message *message)
{
	return !feed->pace.speed_milli || protocol_is_over(feed->protocol, message) ||
	       await_message(feed, message);
}

static int read_here(struct feed *feed)
{
	struct source_message message;
	unsigned int batch = 0;
	int result;

	while ((result = days_next(&feed->days, &message)) == 1) {
		if (!may_process(feed, &message))
			return -EINTR;
		feed->message++;
		result = read_message(feed, &message);
		if (result == PROTOCOL_NEXT_DAY) {
			feed->message--;
			days_keep(&feed->days, &message);
		}
		if (result != 0)
			break;
		if (++batch >= FEED_BATCH) {
			batch = 0;
			flush(feed);
			if (interrupted(feed)) {
				result = -EINTR;
				break;
			}
		}
	}
	feed->last_ns = feed->protocol->marks.time_ns;
	flush(feed);
	return result;
}

static void on_read_no_start(void *user, const struct day_marks *marks)
{
	report_incomplete(user, TB_QUALITY_NO_START, marks);
}

static void on_read_output(void *user, uint64_t message, const struct market_output *made)
{
	struct feed *feed = user;

	outputs_take(feed->outputs, message, made);
}

static void on_read_defect(void *user, uint64_t offset, const char *why)
{
	report_defect(user, offset, why);
}

static int on_read_ended(void *user)
{
	return end_message(user);
}

static void on_read_idle(void *user)
{
	flush(user);
}

/* Begins a reading thread, if that is the feed's way. */
static bool starts_apart(struct feed *feed)
{
	feed->apart = feed->reading != NULL;
	if (feed->apart &&
	    reading_start(feed->reading, feed->protocol, &feed->days, feed->message) < 0) {
		feed->apart = false;
		feed_log(feed, TB_LOG_WARNING, "%s; a single thread reads and publishes",
			 tb_error());
	}
	return feed->apart;
}

static int read_apart(struct feed *feed)
{
	struct reading_place place;
	const int result = reading_take(feed->reading, &place);

	feed->message = place.message;
	feed->last_ns = place.time_ns;
	flush(feed);
	return result;
}

/* Whole frames may be of another format: random bytes of some length are a frame. */
static int none_valid(const struct feed *feed)
{
	return error_set(EBADMSG,
			 "%s: found %llu messages and no valid one of %s, expected at least 1; is "
			 "it a file of another format?",
			 feed->source->name, (unsigned long long)feed->message,
			 feed->protocol->kind->name);
}

/* Sets the date of the n-th day of a source. */
static int day_set(struct feed *feed, unsigned int number)
{
	const struct feed_options *options = &feed->options;
	struct feed_day day = { .midnight_ns = options->midnight_ns + number * DAY_NS };
	int result = 0;

	if (options->date)
		result = options->date(options->open_user, number, &day);
	if (result < 0)
		return result;
	feed->day = day;
	feed->day_number = number;
	protocol_date(feed->protocol, day.midnight_ns);
	return 0;
}

/* Empties topics and books for the n-th day of a source. */
static int begin_empty(struct feed *feed, unsigned int number)
{
	int result = outputs_restart(feed->outputs);

	if (result == 0)
		protocol_clear(feed->protocol);
	return result < 0 ? result : day_set(feed, number);
}

/* The whole day went by at full speed, against the settings. */
static void report_no_pace(const struct feed *feed)
{
	const uint64_t from_s = feed->options.from_ns / 1000000000u;
	char from[64] = "no trade for from: first_trade", last[DAY_MARKS_TIME_BYTES];

	if (!feed->pace.speed_milli || feed->paced)
		return;
	if (feed->options.from_ns != FEED_FIRST_TRADE)
		snprintf(from, sizeof(from), "no message of %02u:%02u:%02u (from) or later",
			 (unsigned int)(from_s / 3600), (unsigned int)(from_s / 60 % 60),
			 (unsigned int)(from_s % 60));
	day_marks_time(feed->last_ns, last);
	feed_log(feed, TB_LOG_WARNING,
		 "%s: found %s, the last message is of %s; the day was read at full speed",
		 feed->source->name, from, last);
}

/* Another day follows in the source: its books, names and topics begin empty. */
static int next_day(struct feed *feed)
{
	int result;

	report_no_pace(feed);
	note_end(feed, 0);
	result = begin_empty(feed, feed->day_number + 1);
	if (result == 0)
		feed_log(feed, TB_LOG_INFO, "%s: another day begins with message %llu: %s",
			 feed->source->name, (unsigned long long)feed->message + 1, feed->day.date);
	return result;
}

/* Reads the source to the end of a day: 0: it was the last; PROTOCOL_NEXT_DAY; -EINTR if the feed
 * must end; or the error that stopped it. */
static int read_day(struct feed *feed)
{
	feed->pace.begun = feed->paced = feed->defective = false;
	return starts_apart(feed) ? read_apart(feed) : read_here(feed);
}

/* Reads the source to its end: 0; -EINTR; or the error that stopped it. */
static int read_source(struct feed *feed)
{
	const uint64_t valid = protocol_valid(feed->protocol);
	int result;

	feed->message = 0;
	feed->days = (struct days){ .source = feed->source };
	while ((result = read_day(feed)) == PROTOCOL_NEXT_DAY) {
		result = next_day(feed);
		if (result < 0)
			return result;
	}
	return result == 0 && protocol_valid(feed->protocol) == valid ? none_valid(feed) : result;
}

/* The topics hold what the file was. A reader of the log learns that its name now stands for
 * something else. */
static void report_change(const struct feed *feed)
{
	const char *change = source_changed(feed->source);

	if (change)
		feed_log(feed, TB_LOG_WARNING, "%s %s while it was read", feed->source->name,
			 change);
}

/* Opens the source. A stop of the feed interrupts reading, even where there is no message. */
static int open_source(struct feed *feed)
{
	int result = feed->options.open(feed->options.open_user, &feed->source);

	if (result == 0)
		feed->source->interrupted = &feed->pace.interrupted;
	return result;
}

/* Empties topics and books, and opens the source again. */
static int restart(struct feed *feed)
{
	int result;

	source_close(feed->source);
	feed->source = NULL;
	result = open_source(feed);
	return result < 0 ? result : begin_empty(feed, 0);
}

static int run(struct feed *feed)
{
	int result;

	if (!wait_for_subscribers(feed))
		return -EINTR;
	for (;;) {
		feed_log(feed, TB_LOG_INFO, "reads %s", feed->source->name);
		result = read_source(feed);
		if (result == 0)
			feed_log(feed, TB_LOG_INFO, "read %llu messages, to the end",
				 (unsigned long long)feed->message);
		if (result == 0)
			report_no_pace(feed);
		if (result != -EINTR)
			report_change(feed);
		note_end(feed, result);
		if (result == 0 && feed_fails(feed))
			result = FEED_INCOMPLETE;
		if (result != 0 || feed->options.at_end != FEED_RESTART)
			return result;
		/* A source may be shorter than a batch. */
		result = interrupted(feed) ? -EINTR : restart(feed);
		if (result < 0)
			return result;
	}
}

static void report_stop(const struct feed *feed)
{
	char time[DAY_MARKS_TIME_BYTES];

	if (feed->message == 0) {
		feed_log(feed, TB_LOG_ERROR, "%s; stopped before the first message", tb_error());
		return;
	}
	day_marks_time(feed->last_ns, time);
	feed_log(feed, TB_LOG_ERROR, "%s; stopped after %llu messages, the last of %s", tb_error(),
		 (unsigned long long)feed->message, time);
}

static void *thread_run(void *user)
{
	struct feed *feed = user;

	pthread_setname_np(pthread_self(), "feed");
	prctl(PR_SET_TIMERSLACK, 1UL); /* this thread's: its pace is exact */
	if (feed->options.cpu >= 0 && !cores_pin(feed->options.cpu))
		feed_log(feed, TB_LOG_WARNING, "cannot run on cpu %d; runs on any",
			 feed->options.cpu);
	feed->result = run(feed);
	if (feed->result < 0 && feed->result != -EINTR)
		report_stop(feed);
	if (feed->result == -EINTR)
		feed->result = feed_fails(feed) ? FEED_INCOMPLETE : 0;
	for (size_t i = 0; i < feed->options.topic_count; i++)
		tb_topic_end(feed->options.topics[i].topic);
	atomic_store_explicit(&feed->over, true, memory_order_release);
	eventfd_write(feed->options.done_fd, 1);
	return NULL;
}

/* -- opening ------------------------------------------------------------------------------------
 */

/* The topics as tb_publisher_joins takes them. */
static int joined_make(struct feed *feed)
{
	const size_t count = feed->options.topic_count;

	feed->joined = calloc(count + 1, sizeof(struct tb_topic *));
	if (!feed->joined)
		return error_set(ENOMEM, "no memory");
	for (size_t i = 0; i < count; i++)
		feed->joined[i] = feed->options.topics[i].topic;
	return 0;
}

/* A pace makes this thread wait, so a second thread would gain nothing. */
static int reading_make(struct feed *feed)
{
	const struct reading_options options = {
		.cpu = feed->options.cpu,
		.interrupted = &feed->pace.interrupted,
		.wake_fd = feed->pace.event_fd,
		.touch_ns = (uint64_t)feed->options.touch_ms * NS_PER_MS,
		.no_start = on_read_no_start,
		.defect = on_read_defect,
		.output = on_read_output,
		.ended = on_read_ended,
		.idle = on_read_idle,
		.batch = FEED_BATCH,
		.user = feed,
	};

	if (!feed->options.reading_thread || feed->options.speed_milli)
		return 0;
	return reading_open(&feed->reading, &options);
}

static int counters_show(const struct feed *feed)
{
	size_t count;
	const struct tb_counter *table = protocol_counter_table(feed->protocol, &count);

	return tb_publisher_count(feed->options.publisher, feed->name, table,
				  feed->protocol->counters, count);
}

int feed_open(struct feed **out, const struct feed_options *options)
{
	struct feed *feed = aligned_alloc(64, sizeof(*feed));
	struct protocol_options protocol = { .output = on_output,
					     .no_start = on_no_start,
					     .malformed = on_malformed,
					     .user = feed };
	int result;

	*out = NULL;
	if (!feed)
		return error_set(ENOMEM, "feed %s: no memory", options->name);
	memset(feed, 0, sizeof(*feed));
	feed->options = *options;
	feed->pace.event_fd = -1;
	feed->name = strdup(options->name);
	feed->say = (struct feed_say){ feed->name, options->log, options->user };
	result = feed->name ? pace_open(&feed->pace, options->speed_milli)
			    : error_set(ENOMEM, "no memory");
	if (result == 0)
		result = reading_make(feed);
	if (result == 0)
		result = joined_make(feed);
	if (result == 0)
		result = outputs_open(&feed->outputs, options->group, options->topics,
				      options->topic_count, &feed->say,
				      options->incomplete == FEED_FAIL ? TB_LOG_ERROR
								       : TB_LOG_WARNING);
	if (result == 0)
		protocol.wanted = outputs_wanted(feed->outputs);
	if (result == 0)
		result = protocol_open(&feed->protocol, options->protocol, &protocol);
	if (result == 0)
		result = day_set(feed, 0);
	if (result == 0)
		result = open_source(feed);
	if (result == 0)
		result = counters_show(feed);
	if (result < 0) {
		feed_close(feed);
		return error_prefix(result, "feed %s: ", options->name);
	}
	*out = feed;
	return 0;
}

int feed_start(struct feed *feed)
{
	int code = pthread_create(&feed->thread, NULL, thread_run, feed);

	if (code != 0)
		return error_set(code, "feed %s: cannot create a thread: %s", feed->name,
				 strerror(code));
	feed->started = true;
	return 0;
}

bool feed_over(const struct feed *feed, int *result)
{
	if (!atomic_load_explicit(&feed->over, memory_order_acquire))
		return false;
	*result = feed->result;
	return true;
}

enum feed_at_end feed_at_end(const struct feed *feed)
{
	return feed->options.at_end;
}

void feed_stop(struct feed *feed)
{
	if (!feed || !feed->started)
		return;
	pace_interrupt(&feed->pace);
	pthread_join(feed->thread, NULL);
	feed->started = false;
}

void feed_close(struct feed *feed)
{
	if (!feed)
		return;
	feed_stop(feed);
	outputs_close(feed->outputs);
	source_close(feed->source);
	protocol_close(feed->protocol);
	reading_close(feed->reading);
	pace_close(&feed->pace);
	free(feed->joined);
	free(feed->name);
	free(feed);
}
