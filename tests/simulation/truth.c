/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/truth.h"

#include <stdlib.h>
#include <string.h>

struct truth truth;

void truth_clear(void)
{
	for (unsigned int i = 0; i < truth.count; i++)
		free(truth.epochs[i].records);
	memset(&truth, 0, sizeof(truth));
}

struct truth_epoch *truth_begin(const char *topic, uint64_t id)
{
	struct truth_epoch *epoch = &truth.epochs[truth.count];

	if (truth.count == TRUTH_EPOCHS)
		return NULL;
	*epoch = (struct truth_epoch){
		.id = id, .topic = topic, .at = truth.count++, .life = truth.lives - 1
	};
	return epoch;
}

struct truth_record *truth_add(struct truth_epoch *epoch)
{
	const uint32_t quality = truth_quality(epoch, epoch->count);
	struct truth_record *record;

	if (epoch->count == epoch->room) {
		epoch->room = epoch->room ? 2 * epoch->room : 256;
		epoch->records =
			realloc(epoch->records, (size_t)epoch->room * sizeof(*epoch->records));
		if (!epoch->records)
			abort();
	}
	record = &epoch->records[epoch->count++];
	memset(record, 0, sizeof(*record));
	record->quality = quality;
	return record;
}

struct truth_epoch *truth_find(const char *topic, uint64_t id)
{
	for (unsigned int i = 0; i < truth.count; i++)
		if (truth.epochs[i].id == id && strcmp(truth.epochs[i].topic, topic) == 0)
			return &truth.epochs[i];
	return NULL;
}

struct truth_epoch *truth_newest(const char *topic)
{
	for (unsigned int i = truth.count; i > 0; i--)
		if (strcmp(truth.epochs[i - 1].topic, topic) == 0)
			return &truth.epochs[i - 1];
	return NULL;
}

struct truth_record *truth_at(const struct truth_epoch *epoch, uint64_t sequence)
{
	return &epoch->records[sequence - 1];
}

uint32_t truth_quality(const struct truth_epoch *epoch, uint64_t sequence)
{
	return sequence > 0 ? truth_at(epoch, sequence)->quality : TB_QUALITY_GOOD;
}

bool truth_is_value(const struct truth_record *record)
{
	switch (record->kind) {
	case TB_KIND_UPDATE:
	case TB_KIND_CLEAR:
		return true;
	case TB_KIND_CORRECTION:
		return !(record->flags & TB_FLAG_PAST);
	default:
		return record->kind >= TB_KIND_USER;
	}
}

uint64_t truth_value(const struct truth_epoch *epoch, uint32_t instrument, uint64_t sequence)
{
	for (; sequence > 0; sequence--) {
		const struct truth_record *record = truth_at(epoch, sequence);

		if (truth_is_value(record) && record->instrument == instrument)
			return sequence;
	}
	return 0;
}

uint64_t truth_until(const struct truth_epoch *epoch, uint64_t time_ns)
{
	uint64_t sequence = epoch->count;

	while (sequence > 0 && truth_at(epoch, sequence)->time_ns > time_ns)
		sequence--;
	return sequence;
}

bool truth_ends_message(const struct truth_epoch *epoch, uint64_t sequence)
{
	if (!epoch->marks || sequence == 0)
		return true;
	return (truth_at(epoch, sequence)->flags & TB_FLAG_LAST) ||
	       (epoch->left && sequence == epoch->count);
}
