/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sample.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct sample_row *row_new(struct sample *sample)
{
	const size_t room = sample->room ? sample->room * 2 : 256;
	struct sample_row *rows;

	if (sample->count == sample->room) {
		rows = realloc(sample->rows, room * sizeof(*rows));
		if (!rows)
			return NULL;
		sample->rows = rows;
		sample->room = room;
	}
	return &sample->rows[sample->count];
}

static void row_free(struct sample_row *row)
{
	free(row->name);
	free(row->counter);
	free(row->unit);
}

void sample_add(struct sample *sample, const char *scope, const char *name, const char *counter,
		uint64_t value, const char *unit, bool counts)
{
	struct sample_row *row = row_new(sample);

	if (!row) {
		sample->error = ENOMEM;
		return;
	}
	*row = (struct sample_row){ .scope = scope,
				    .name = strdup(name),
				    .counter = strdup(counter),
				    .unit = strdup(unit),
				    .value = value,
				    .counts = counts };
	if (row->name && row->counter && row->unit) {
		sample->count++;
		return;
	}
	row_free(row);
	sample->error = ENOMEM;
}

static bool is_same(const struct sample_row *one, const struct sample_row *other)
{
	return strcmp(one->counter, other->counter) == 0 && strcmp(one->name, other->name) == 0 &&
	       strcmp(one->scope, other->scope) == 0;
}

/* Rows keep their order, also if others came before them. So the search begins behind the row that
 * was found last. */
static const struct sample_row *row_find(struct sample *sample, const struct sample_row *row)
{
	for (size_t i = 0; i < sample->count; i++) {
		const size_t at = (sample->searched + i) % sample->count;

		if (is_same(&sample->rows[at], row)) {
			sample->searched = at + 1;
			return &sample->rows[at];
		}
	}
	return NULL;
}

enum sample_note sample_compare(struct sample *before, const struct sample *now, size_t row,
				double *rate)
{
	const struct sample_row *present = &now->rows[row], *past;
	const uint64_t elapsed_ns = now->taken_ns - before->taken_ns;

	*rate = 0;
	if (!present->counts)
		return SAMPLE_NONE;
	if (before->count > 0 && before->bus_id != now->bus_id)
		return SAMPLE_RESTART;
	past = row_find(before, present);
	if (!past || elapsed_ns == 0)
		return SAMPLE_FIRST;
	if (present->value < past->value)
		return SAMPLE_FELL;
	*rate = (double)(present->value - past->value) * 1e9 / (double)elapsed_ns;
	return SAMPLE_RATE;
}

const char *sample_note_word(enum sample_note note)
{
	switch (note) {
	case SAMPLE_FIRST:
		return "first";
	case SAMPLE_RESTART:
		return "restart";
	case SAMPLE_FELL:
		return "fell";
	case SAMPLE_RATE:
	case SAMPLE_NONE:
		break;
	}
	return "";
}

void sample_free(struct sample *sample)
{
	for (size_t i = 0; i < sample->count; i++)
		row_free(&sample->rows[i]);
	free(sample->rows);
	*sample = (struct sample){ 0 };
}
