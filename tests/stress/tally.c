/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/stress/tally.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "tests/support/batch_record.h"

void tally_complain(struct tally *tally, const char *format, ...)
{
	va_list args;

	if (tally->wrong[0])
		return;
	va_start(args, format);
	vsnprintf(tally->wrong, sizeof(tally->wrong), format, args);
	va_end(args);
}

void tally_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	struct tally *tally = user;
	const char *wrong = truth_wrong(&tally->truth, tally->next, record);

	if (wrong)
		tally_complain(tally, "record %" PRIu64 " (delivered as %" PRIu64 "): %s",
			       tally->next, record->sequence, wrong);
	tally->source = (struct tb_source *)(uintptr_t)source;
	tally->next++;
	tally->delivered++;
}

void tally_batch(void *user, const struct tb_source *source, const struct tb_batch *batch)
{
	for (uint32_t i = 0; i < batch->count; i++) {
		const struct tb_record record = batch_record(source, batch, i);

		tally_record(user, source, &record);
	}
}

/* The publisher reserves at most slots / 8 ahead. Younger records must not be given up. */
static void gap_reported(struct tally *tally, const struct tb_event *event)
{
	const uint64_t written = atomic_load_explicit(tally->written, memory_order_acquire);
	const uint64_t step = tally->slots / 8 < 1024 ? tally->slots / 8 : 1024;

	if (event->first != tally->next || event->last < event->first)
		tally_complain(tally,
			       "gap %" PRIu64 " to %" PRIu64 ", expected a gap from %" PRIu64,
			       event->first, event->last, tally->next);
	else if (event->cause != TB_CAUSE_OVERRUN && event->cause != TB_CAUSE_BEFORE_JOIN)
		tally_complain(tally, "gap %" PRIu64 " to %" PRIu64 " with cause %s", event->first,
			       event->last,
			       event->cause == TB_CAUSE_CORRUPT ? "corrupt" : "upstream");
	else if (event->last + tally->slots > written + step)
		tally_complain(tally,
			       "gap %" PRIu64 " to %" PRIu64 " was not overwritten: %" PRIu64
			       " records were written into %" PRIu64 " slots",
			       event->first, event->last, written, tally->slots);
	tally->lost += event->last - event->first + 1;
	tally->gaps++;
	tally->next = event->last + 1;
}

/* Its record has a sequence. Without a sequence, the state came from the line. */
static void quality_reported(struct tally *tally, const struct tb_event *event)
{
	if (event->first == 0)
		return;
	if (event->first != tally->next)
		tally_complain(tally, "quality at %" PRIu64 ", expected record %" PRIu64,
			       event->first, tally->next);
	tally->next = event->first + 1;
	tally->delivered++;
}

void tally_event(void *user, const struct tb_event *event)
{
	struct tally *tally = user;

	switch (event->kind) {
	case TB_EVENT_APPEARED:
		tally->appeared = true;
		tally->next = event->first;
		break;
	case TB_EVENT_GAP:
		gap_reported(tally, event);
		break;
	case TB_EVENT_ENDED:
		tally->ended = true;
		if (event->head != tally->next - 1 || event->head != atomic_load(tally->written))
			tally_complain(tally,
				       "ended at %" PRIu64 " of %" PRIu64 " written, %" PRIu64
				       " accounted for",
				       event->head, atomic_load(tally->written), tally->next - 1);
		break;
	case TB_EVENT_RESTART:
		tally->restarted = true;
		tally->next = 1;
		break;
	case TB_EVENT_REFUSED:
		tally_complain(tally, "refused: %s", event->words);
		break;
	case TB_EVENT_QUALITY:
		tally->quality = event->quality;
		quality_reported(tally, event);
		break;
	case TB_EVENT_IMAGE:
	case TB_EVENT_COMPLETE:
	case TB_EVENT_NO_VALUE:
		tally_complain(tally, "event %d of an image, which was not asked for",
			       (int)event->kind);
		break;
	case TB_EVENT_NO_INSTRUMENT:
	case TB_EVENT_LEFT:
		tally_complain(tally, "event %d of an option that was not set", (int)event->kind);
		break;
	case TB_EVENT_STALE:
	case TB_EVENT_LIVE:
		break; /* a machine under load may delay the pulse */
	}
}
