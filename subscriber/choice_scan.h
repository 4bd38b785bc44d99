/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a topic's directory for its choice: judges each instrument, and reports names that no
 * instrument has. */
#ifndef TICKBUS_SUBSCRIBER_CHOICE_SCAN_H
#define TICKBUS_SUBSCRIBER_CHOICE_SCAN_H

#include "subscriber/choice.h"
#include "subscriber/state.h"
#include "subscriber/value_reads.h"

/* Whether a report has begun, or a part of the directory is to be read. */
static inline bool choice_scan_runs(const struct choice *choice)
{
	return choice && (choice->reporting || choice->at < choice->end);
}

/* Whether a part of the directory is to be read, or names are to be reported. After the last report
 * no report begins. */
static inline bool choice_scan_is_due(const struct choice *choice)
{
	return choice_scan_runs(choice) || (choice && choice->report && !choice->last);
}

/* Whether every instrument below this was judged. */
static inline bool choice_scan_covers(const struct choice *choice, uint32_t instruments)
{
	return !choice || choice->at >= instruments;
}

/* Whether it waits for a progress line. */
static inline bool choice_scan_wants_line(const struct choice *choice)
{
	return choice && choice->line_wanted;
}

/* A valid progress line counts so many instruments. */
static inline void choice_scan_line(struct choice *choice, uint32_t instruments)
{
	if (!choice || !choice->line_wanted)
		return;
	choice->line_wanted = false;
	choice->report_end = instruments;
	choice->end = choice->end > instruments ? choice->end : instruments;
}

/* The directory is to be read up to here: a line counts so many instruments. */
static inline void choice_scan_want(struct choice *choice, uint32_t instruments)
{
	choice->end = choice->end > instruments ? choice->end : instruments;
}

/* Whether a look leaves the landing's page to the READ of a directory. Every second look does:
 * otherwise a reader that looks all the time would never get to the names. A failed copy needs its
 * look. */
static inline bool choice_scan_takes_turn(struct tb_source *source)
{
	struct choice *choice = source->mapping.choice;

	if (!choice || choice->line_wanted || choice->at >= choice->end || source->copy_failed)
		return false;
	choice->turn = !choice->turn;
	return choice->turn;
}

/* The topic ended and was read to its end; the line that says so counts so many instruments. At the
 * first call the last report begins (CH6). Returns whether the end has to wait. */
static inline bool choice_scan_last(const struct tb_subscription *subscription,
				    struct choice *choice, uint32_t instruments)
{
	if (choice && !choice->last) {
		choice->last = true;
		choice_report_begins(subscription, choice);
		choice_scan_line(choice, instruments);
	}
	return choice_scan_runs(choice);
}

/* Moves on: asks for a line, or judges some entries. At the end it reports the names that no
 * instrument has: may call on_event. */
void choice_scan_step(struct tb_source *);
/* Judges some entries: at once in place, by a READ of a page over a network. */
void choice_scan_entries(struct tb_source *);
/* A READ of entries has landed, or failed. */
void choice_scan_landed(struct tb_source *, int status);
/* Work that a sleeper would miss. */
enum value_work choice_scan_work(const struct tb_source *);
/* For TB_NAMES_REQUIRED, before reading begins: reads the directory that this line counts. Returns
 * 1 if the topic has all names, 0 if more is to be read, -ENOENT with a message. */
int choice_scan_required(struct tb_source *, uint32_t instruments);

#endif
