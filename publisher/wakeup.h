/* SPDX-License-Identifier: Apache-2.0 */
/* Wakes sleeping subscribers for the cost of one load per flush.
 *
 * The publishing thread and the control thread share two words per topic. The publishing thread
 * writes the progress line's head. The control thread sets the armed word, and the publishing
 * thread clears it.
 *
 *   flush (publishing thread)            arm (control thread)
 *   F1  store head                       A1  store armed = 1
 *   F2  load armed                       A2  load head
 *   if set: clear it, signal             if it moved past what the sleeper saw: wake it
 *
 * One of the two must see the other's store, or the sleeper is never woken. That needs a full fence
 * between F1 and F2 and between A1 and A2. The fence in arm is membarrier(PRIVATE_EXPEDITED), which
 * makes every running thread of this process execute a full fence. If the publishing thread is
 * before F1 at that moment, its F2 comes after A1 is visible. If it is past F1, its head is visible
 * to A2. So the flush needs no fence; only the compiler must keep F1 before F2. If the kernel has
 * no membarrier, the flush executes the fence itself (fence_in_flush).
 *
 * After a signal the control thread checks every join that is still armed. If any sleeps on (a
 * subscriber may have read past the head it was woken for), it arms the word again and checks head
 * again. One eventfd serves all topics; a count per topic says which topics signalled.
 *
 *   S1  the publishing thread counts a signal, release. Pairs with S2.
 *   S2  the control thread loads the count, acquire. It then also sees the head (F1) and the
 *       cleared word. So a check just before the signal is as good as a check after it. */
#ifndef TICKBUS_PUBLISHER_WAKEUP_H
#define TICKBUS_PUBLISHER_WAKEUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct wakeup {
	_Atomic uint32_t armed;
	_Atomic uint64_t signals; /* counted by the publishing thread */
	uint64_t signals_seen;    /* by the control thread */
	int event_fd;             /* the control thread's */
	bool fence_in_flush;
};

/* Registers the process for membarrier: true if the kernel has no membarrier, so that flushes need
 * a fence. Calling it again is harmless. */
bool wakeup_needs_fence(void);

/* By the publishing thread, after head was stored. */
static inline void wakeup_flush(struct wakeup *wakeup);

/* By the control thread: sets the word, then fences. Later loads come after the fence. */
void wakeup_arm(struct wakeup *wakeup);

void wakeup_signal(struct wakeup *wakeup);

/* By the control thread: whether a signal came since its last call. */
bool wakeup_signalled(struct wakeup *wakeup);

static inline void wakeup_flush(struct wakeup *wakeup)
{
	if (wakeup->fence_in_flush)
		atomic_thread_fence(memory_order_seq_cst);
	else
		atomic_signal_fence(memory_order_seq_cst); /* F1 before F2 for the compiler */
	if (__builtin_expect(atomic_load_explicit(&wakeup->armed, memory_order_relaxed) != 0, 0))
		wakeup_signal(wakeup);
}

#endif
