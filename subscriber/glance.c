/* SPDX-License-Identifier: Apache-2.0 */
/* The glances of a subscriber, by slot of its table. */
#include "subscriber/glance.h"

#include <errno.h>
#include <stdlib.h>

#include "bus/error.h"

const _Atomic uint64_t glance_zero;

int glance_open(struct tb_subscriber *subscriber)
{
	subscriber->glances = calloc(subscriber->topics_max, sizeof(*subscriber->glances));
	if (!subscriber->glances)
		return error_set(ENOMEM, "subscriber: no memory");
	for (uint32_t slot = 0; slot < subscriber->topics_max; slot++)
		glance_wake(&subscriber->glances[slot]);
	return 0;
}

void glance_close(struct tb_subscriber *subscriber)
{
	free(subscriber->glances);
	subscriber->glances = NULL;
}

void glance_wake_all(struct tb_subscriber *subscriber)
{
	for (uint32_t slot = 0; slot < subscriber->table_used; slot++)
		glance_wake(&subscriber->glances[slot]);
}
