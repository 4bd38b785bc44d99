/* SPDX-License-Identifier: Apache-2.0 */
/* A record of a batch, as a handler of records gets it. */
#ifndef TICKBUS_TESTS_BATCH_RECORD_H
#define TICKBUS_TESTS_BATCH_RECORD_H

#include "tickbus/subscriber.h"

static inline struct tb_record batch_record(const struct tb_source *source,
					    const struct tb_batch *batch, uint32_t i)
{
	const struct tb_slot *slot = tb_batch_record(batch, i);

	return (struct tb_record){ .size = sizeof(struct tb_record),
				   .epoch = batch->epoch,
				   .sequence = slot->sequence,
				   .time_ns = slot->time_ns,
				   .instrument = slot->instrument,
				   .length = slot->length,
				   .kind = slot->kind,
				   .flags = slot->flags,
				   .name = tb_source_name(source, slot->instrument),
				   .data = tb_slot_data(slot) };
}

#endif
