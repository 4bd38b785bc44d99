/* SPDX-License-Identifier: Apache-2.0 */
/* Which instruments of a topic a subscription has chosen by its list of names.
 *
 * A subscription with a list has a name_list; each epoch of its topics has a choice. Filters, watch
 * lists, images and conflation ask here. A caller that has only a number asks choice_has(). It
 * judges the instrument by its name, which must be known, when it is first asked. */
#ifndef TICKBUS_SUBSCRIBER_CHOICE_H
#define TICKBUS_SUBSCRIBER_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "bus/region.h"
#include "subscriber/name_list.h"
#include "subscriber/state.h"

struct choice {
	uint32_t capacity;
	uint64_t *chosen, *left;           /* a bit each, by instrument; neither: not judged yet */
	uint64_t settled[NAME_LIST_WORDS]; /* by id of the list: an instrument matched the entry, or
					    * it was reported that no instrument does */
	/* The directory is read up to `end`, once in each epoch: see choice_scan.c. */
	uint32_t at, end;
	unsigned int tries; /* copies of entry `at` that were not valid */
	/* A report of names without an instrument. */
	bool report;         /* the list has changed since the last report began */
	bool reporting;      /* a report has begun */
	bool line_wanted;    /* it waits for a line, which says how many instruments there are */
	bool reported;       /* a report is over, and the watch list has not looked since */
	bool last;           /* the topic has ended, and the last report has begun */
	uint32_t report_end; /* its place, from that line on */
	uint64_t asked[NAME_LIST_WORDS]; /* its entries, by id of the list */
	bool turn;                       /* the last look left the page to the directory */
	bool required;                   /* TB_NAMES_REQUIRED was checked */
	bool found; /* an instrument was chosen since the watch list began to look */
};

/* A choice for an epoch of this shape, if the subscription has a list. *out NULL: it has no list. 0
 * or -ENOMEM. */
int choice_open(const struct tb_subscription *, const struct region_shape *, struct choice **out);
/* Takes NULL. */
void choice_close(struct choice *);
/* The list has changed: a report is to follow. The caller judges the instruments of the names that
 * were added or removed. */
void choice_changed(const struct tb_subscription *, struct choice *);
/* A report begins, of the entries that the list has now. */
void choice_report_begins(const struct tb_subscription *, struct choice *);
/* Judges an instrument whose name is known, or judges it again. Returns whether it is chosen. */
bool choice_judge(const struct tb_source *, uint32_t instrument);

/* Whether it was judged as not chosen. */
static inline bool choice_is_left(const struct choice *choice, uint32_t instrument)
{
	return instrument < choice->capacity &&
	       choice->left[instrument / 64] >> instrument % 64 & 1;
}

/* Whether it was judged as chosen. */
static inline bool choice_is_taken(const struct choice *choice, uint32_t instrument)
{
	return instrument < choice->capacity &&
	       choice->chosen[instrument / 64] >> instrument % 64 & 1;
}

/* Whether an instrument whose name is known is chosen. All are if there is no list. */
static inline bool choice_has(const struct tb_source *source, uint32_t instrument)
{
	const struct choice *choice = source->mapping.choice;

	if (!choice || choice_is_taken(choice, instrument))
		return true;
	return !choice_is_left(choice, instrument) && choice_judge(source, instrument);
}

#endif
