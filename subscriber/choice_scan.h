/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a topic's directory for its choice: judges each instrument, and reports names that no
 * instrument has. */
#ifndef TICKBUS_SUBSCRIBER_CHOICE_SCAN_H
#define TICKBUS_SUBSCRIBER_CHOICE_SCAN_H

#include "subscriber/choice.h"
#include "subscriber/state.h"
#include "subscriber/value_reads.h"

/* Whether a part of the directory is to be read, or names are to be reported. */
static inline bool choice_scan_is_due(const struct choice *choice)
{
	return choice && (choice->line_wanted || choice->at < choice->end || choice->report);
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
