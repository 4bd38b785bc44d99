/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a topic's directory for its choice, once in each epoch. Over a network it READs a page of
 * entries at a time; in place it takes them by hundreds. Records flow meanwhile: an instrument that
 * the scan has not reached is judged when its record comes.
 *
 * CH3  A report keeps the entries of the list before its line is requested. Each instrument that
 *      this line counts is judged before the report ends. So a name that was there when it came
 *      into the list is not reported.
 * CH4  An entry that is not valid in TRIES_MAX copies is left out. It was damaged on its way
 *      (N-I1), and must not hold up the others.
 * CH5  Each name is reported once in an epoch: its bit is set before its handler is called. If the
 *      handler changes the list, the report goes on with the entries that it began with.
 * CH6  Once the line of a report has come, nothing moves the end of the report. New instruments
 *      and changes of the list wait for the next report. The end of a topic waits for one
 *      report. So no program and no publisher can renew a wait for ever. */
#include "subscriber/choice_scan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bus/error.h"
#include "subscriber/connection.h"
#include "subscriber/deliver.h"
#include "subscriber/names.h"
#include "subscriber/pull_view.h"
#include "subscriber/reader.h"

#define ENTRIES_MAX 512 /* entries that one step judges */

/* -- names without an instrument -------------------------------------------------------------- */

/* Reports each name once (CH5). */
static void report(struct tb_source *source)
{
	struct choice *choice = source->mapping.choice;
	const struct name_list *list = source->subscription->list;
	char text[NAME_LIST_PATTERN_MAX + 1];

	choice->reporting = false;
	choice->reported = true;
	for (uint32_t i = 0; i < list->count;) {
		const struct name_entry *entry = &list->entries[i++];

		if (!name_list_bit(choice->asked, entry->id) ||
		    name_list_bit(choice->settled, entry->id))
			continue;
		choice->settled[entry->id / 64] |= UINT64_C(1) << entry->id % 64;
		strcpy(text, entry->text);
		deliver_no_instrument(source, text);
		if (deliver_stopped(source))
			return;
		i = name_list_behind(list, text); /* the handler may have changed the list */
	}
}

#define WORDS_BYTES 256
#define NAMES_SHOWN 5

/* The first missing names of the list. Returns how many are missing. */
static unsigned int missing_of(const struct tb_source *source, char words[WORDS_BYTES])
{
	const struct choice *choice = source->mapping.choice;
	const struct name_list *list = source->subscription->list;
	unsigned int count = 0;
	size_t used = 0;

	for (uint32_t i = 0; i < list->exact; i++) {
		if (name_list_bit(choice->settled, list->entries[i].id))
			continue;
		if (count < NAMES_SHOWN)
			used += (size_t)snprintf(words + used, WORDS_BYTES - used, "%s%s",
						 count > 0 ? ", " : "", list->entries[i].text);
		count++;
	}
	if (count > NAMES_SHOWN)
		snprintf(words + used, WORDS_BYTES - used, " and %u more", count - NAMES_SHOWN);
	return count;
}

/* -- the directory ---------------------------------------------------------------------------- */

/* Whether entry `at` is done with: judged, or not valid in TRIES_MAX copies (CH4). */
static bool entry_done(struct tb_source *source, int result)
{
	struct choice *choice = source->mapping.choice;

	if (result == 1) {
		choice_has(source, choice->at);
		return true;
	}
	return result < 0 && ++choice->tries == TRIES_MAX;
}

/* Judges what is known, up to the first entry that is to be READ. */
void choice_scan_entries(struct tb_source *source)
{
	struct choice *choice = source->mapping.choice;

	for (int i = 0; i < ENTRIES_MAX && choice->at < choice->end; i++) {
		if (source->page_under_way)
			return; /* the landing's page is in use (N6) */
		if (!entry_done(source, names_fetch_all(source, choice->at)))
			return;
		choice->at++;
		choice->tries = 0;
	}
}

static void line_take(struct tb_source *source)
{
	struct progress line;

	if (!source->mapping.view)
		source->look = true; /* pull_read() or line_poll() requests it */
	else if (pull_view_line(source, &line))
		reader_note(source, &line);
}

void choice_scan_step(struct tb_source *source)
{
	struct choice *choice = source->mapping.choice;

	if (!source->mapping.remote)
		return;
	if (choice->report && !choice->reporting && !choice->last && !source->page_under_way)
		choice_report_begins(source->subscription, choice); /* CH3 */
	if (choice->line_wanted)
		line_take(source);
	if (choice->line_wanted && !source->mapping.view)
		return; /* the line needs the landing's page */
	choice_scan_entries(source);
	if (choice->reporting && !choice->line_wanted && choice->at >= choice->report_end)
		report(source);
}

void choice_scan_landed(struct tb_source *source, int status)
{
	struct choice *choice = source->mapping.choice;

	if (status < 0 || names_take(source) || !choice || choice->at != source->name_wanted)
		return;
	entry_done(source, -EAGAIN);
	if (choice->tries < TRIES_MAX)
		return;
	choice->at++;
	choice->tries = 0;
}

int choice_scan_required(struct tb_source *source, uint32_t instruments)
{
	struct choice *choice = source->mapping.choice;
	char words[WORDS_BYTES];

	if (!choice || !(source->subscription->options.flags & TB_NAMES_REQUIRED) ||
	    choice->required)
		return 1;
	choice_scan_line(choice, instruments);
	while (choice->at < choice->end && !source->page_under_way) {
		const uint32_t before = choice->at;

		choice_scan_entries(source);
		if (choice->at == before)
			break;
	}
	if (choice->at < choice->end)
		return 0;
	choice->required = true;
	if (missing_of(source, words) == 0)
		return 1;
	return error_set(ENOENT,
			 "topic %s: found no instrument %s among its %u, expected all names of the "
			 "list, since all are required",
			 source->name, words, choice->end);
}

enum value_work choice_scan_work(const struct tb_source *source)
{
	const struct choice *choice = source->mapping.choice;

	if (!choice_scan_is_due(choice) || source->state != SOURCE_RUNNING ||
	    !source->mapping.remote || source->page_under_way)
		return VALUE_WORK_NONE;
	if (source->invalid > 0 || !connection_may_read(source) ||
	    (choice->line_wanted && !source->mapping.view))
		return VALUE_WORK_SOON;
	return VALUE_WORK_NOW;
}
