/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/quality.h"

#include <errno.h>
#include <string.h>

bool quality_is_valid(const struct quality *quality)
{
	return quality->state <= QUALITY_STATE_MAX && quality->cause <= QUALITY_CAUSE_MAX;
}

int quality_take(const struct record *copy, struct quality *quality)
{
	if (copy->instrument != QUALITY_INSTRUMENT || copy->length != sizeof(*quality))
		return -EAGAIN;
	memcpy(quality, copy->payload, sizeof(*quality));
	return quality_is_valid(quality) ? 0 : -EAGAIN;
}
