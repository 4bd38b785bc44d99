/* SPDX-License-Identifier: Apache-2.0 */
/* The call that runs a subscriber's handlers, tb_poll or tb_subscribe, and whether it still runs.
 *
 * A handler that is left by longjmp or a C++ exception removes the call from the stack, and the
 * call never ends. From inside the handler, the same subscriber looks the same. So the difference
 * is read from the stack, and only by calls that come while the call counts as running. */
#ifndef TICKBUS_SUBSCRIBER_CALL_H
#define TICKBUS_SUBSCRIBER_CALL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct call {
	bool running;
	bool left;                          /* a jump was found; it stays found */
	pid_t process;                      /* that opened the subscriber */
	pid_t thread;                       /* that runs the call */
	uintptr_t frame;                    /* canonical frame address of the call's function */
	const void *back;                   /* its return address */
	const struct call *volatile *owner; /* in that frame: the call that the frame belongs to */
};

/* Begins a call. The function that uses it is a CALL_FRAME and returns after all handlers. So its
 * frame is on the stack exactly as long as the call runs. The address sanitizer would keep the
 * frame's variables elsewhere, and for longer. */
#define CALL_FRAME __attribute__((noinline, no_sanitize_address))
#define CALL_BEGIN(begun)                                                                          \
	const struct call *volatile call_owner = (begun);                                          \
	call_begin((begun), (uintptr_t)__builtin_dwarf_cfa(),                                      \
		   __builtin_extract_return_addr(__builtin_return_address(0)), &call_owner)

void call_begin(struct call *, uintptr_t frame, const void *back,
		const struct call *volatile *owner);

static inline void call_end(struct call *call)
{
	call->running = false;
}

/* Whether a handler left the running call by a jump. False as long as that is not certain. */
bool call_left(struct call *);

/* Refuses the public call `name` while another call runs: -EBUSY in a handler, -EDEADLK after a
 * jump out of a handler. */
int call_refuse(struct call *, const char *name);

#endif
