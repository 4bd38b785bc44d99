/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/interrupts.h"

static bool is_left(struct interrupts *interrupts, uint64_t window, uint32_t max)
{
	if (interrupts->window != window)
		*interrupts = (struct interrupts){ .window = window };
	return interrupts->count < max;
}

bool interrupts_take(struct interrupts *session, struct interrupts *all, uint64_t now_ms)
{
	const uint64_t window = now_ms / INTERRUPTS_WINDOW_MS;

	if (!is_left(session, window, INTERRUPTS_OF_SESSION) ||
	    !is_left(all, window, INTERRUPTS_IN_ALL))
		return false;
	session->count++;
	all->count++;
	return true;
}
