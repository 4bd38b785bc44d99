/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/wakeup.h"

#include <linux/membarrier.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

bool wakeup_needs_fence(void)
{
	return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0;
}

void wakeup_arm(struct wakeup *wakeup)
{
	atomic_store_explicit(&wakeup->armed, 1, memory_order_relaxed); /* A1 */
	atomic_thread_fence(memory_order_seq_cst);
	if (!wakeup->fence_in_flush)
		syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

void wakeup_signal(struct wakeup *wakeup)
{
	atomic_store_explicit(&wakeup->armed, 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&wakeup->signals, 1, memory_order_release); /* S1 */
	eventfd_write(wakeup->event_fd, 1);
}

bool wakeup_signalled(struct wakeup *wakeup)
{
	const uint64_t seen = wakeup->signals_seen;

	wakeup->signals_seen =
		atomic_load_explicit(&wakeup->signals, memory_order_acquire); /* S2 */
	return wakeup->signals_seen != seen;
}
