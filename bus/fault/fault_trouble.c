/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/fault/fault_trouble.h"

#include "bus/clock.h"

#define STALL_NS UINT64_C(50000000) /* the longest stall */

void fault_trouble(struct fault_link *link)
{
	if (link->lost)
		return;
	if (fault_chance_met(&link->chance, FAULT_DISCONNECT)) {
		fault_counted(FAULT_DISCONNECT);
		link->lost = true;
	}
	if (fault_chance_met(&link->chance, FAULT_STALL)) {
		fault_counted(FAULT_STALL);
		link->stalled_ns =
			clock_ns() + 1 + fault_chance_below(&link->chance, FAULT_STALL, STALL_NS);
	}
}

bool fault_is_stalled(const struct fault_link *link)
{
	return link->stalled_ns != 0 && !link->lost && clock_ns() < link->stalled_ns;
}
