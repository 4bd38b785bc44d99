/* SPDX-License-Identifier: Apache-2.0 */
/* Changes the quality of a topic. A record is the change at its place. The progress line has the
 * state for subscribers that do not read that record.
 *
 * The line is written twice: with the new quality before the record, and with the new head after it
 * (W8). A line that counts the record then never has the old quality, even for a reader that loads
 * its words one by one. */
#include <errno.h>

#include "bus/clock.h"
#include "bus/error.h"
#include "bus/quality.h"
#include "bus/record_put.h"
#include "publisher/writer.h"

static int quality_check(const struct tb_topic *topic, const struct quality *quality)
{
	if (topic->ended)
		return error_set(ESHUTDOWN, "topic %s has ended", topic->name);
	if (!quality_is_valid(quality))
		return error_set(EINVAL,
				 "topic %s: found quality %u with cause %u, expected 0 to %d with "
				 "cause 0 to %d",
				 topic->name, quality->state, quality->cause, QUALITY_STATE_MAX,
				 QUALITY_CAUSE_MAX);
	if (quality->cause > QUALITY_CAUSE_NAMED && quality->cause < TB_QUALITY_USER)
		return error_set(EINVAL,
				 "topic %s: found quality %u with cause %u, which is reserved, "
				 "expected cause 0 to %d, or %d to %d: your own causes",
				 topic->name, quality->state, quality->cause, QUALITY_CAUSE_NAMED,
				 TB_QUALITY_USER, QUALITY_CAUSE_MAX);
	return 0;
}

static void record_write(struct tb_topic *topic, const struct quality *quality)
{
	const struct record_head head = { .sequence = topic->sequence + 1,
					  .time_ns = topic->group ? topic->group->open_ns
								  : clock_real_ns(),
					  .meta = record_meta(QUALITY_INSTRUMENT, sizeof(*quality),
							      TB_KIND_QUALITY, TB_FLAG_LAST) };
	char *const slot = topic->ring + (head.sequence & topic->slot_mask) * topic->slot_bytes;

	record_put((struct slot *)slot, &head, quality, sizeof(*quality),
		   topic->checked ? &topic->salt : NULL);
	topic->sequence = head.sequence;
	if (topic->marks_messages)
		topic->whole = head.sequence;
}

TB_API int tb_topic_quality(struct tb_topic *topic, uint32_t state, uint32_t cause)
{
	const struct quality quality = { state, cause };
	int result;

	if (!topic)
		return error_null("topic");
	result = quality_check(topic, &quality);
	if (result == 0 && topic->group)
		result = writer_message_check(topic);
	if (result < 0)
		return result;
	if (state == topic->progress.quality && cause == topic->quality_cause)
		return topic->group ? 0 : tb_flush(topic);
	topic->progress.quality = (uint8_t)state;
	topic->quality_cause = cause;
	if (topic->sequence >= topic->progress.reserved)
		topic->progress.reserved = topic->sequence + topic->step; /* P-I2 */
	writer_line(topic);                                               /* W8 */
	record_write(topic, &quality);
	return topic->group ? 0 : tb_flush(topic);
}
