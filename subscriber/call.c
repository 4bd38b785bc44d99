/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a call that runs handlers is still on the stack.
 *
 * "Still runs" is the safe answer: then closing waits for the handler to return. "Was left" frees
 * memory that a running call would use, so it needs a proof:
 *
 *   - the thread of the call has ended; or
 *   - a walk from the present call up to all callers passed the call's place on this thread's stack
 *     and did not meet the call there. The walk meets it if position, return address and owner
 *     agree.
 *
 * There is no proof if the walk ends early, at code without unwind tables. There is no proof on the
 * stack of a coroutine. A coroutine on a part of the thread's own stack gives a false proof, so
 * handlers must not close from there. */
#include "subscriber/call.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

#include "bus/error.h"

/* A system call for each tb_poll would be too much, so each thread asks once in each process. */
static pid_t thread_id(pid_t process)
{
	static _Thread_local pid_t id, asked_in;

	if (asked_in != process) {
		asked_in = process;
		id = gettid();
	}
	return id;
}

void call_begin(struct call *call, uintptr_t frame, const void *back,
		const struct call *volatile *owner)
{
	call->thread = thread_id(call->process);
	call->frame = frame;
	call->back = back;
	call->owner = owner;
	call->running = true;
}

/* Whether both addresses are on the calling thread's own stack. */
static bool on_this_stack(uintptr_t one, uintptr_t other)
{
	pthread_attr_t attributes;
	void *lowest = NULL;
	size_t bytes = 0;

	if (pthread_getattr_np(pthread_self(), &attributes) != 0)
		return false;
	pthread_attr_getstack(&attributes, &lowest, &bytes);
	pthread_attr_destroy(&attributes);
	return one - (uintptr_t)lowest < bytes && other - (uintptr_t)lowest < bytes;
}

#define EXITING 0x4u /* PF_EXITING among the flags in /proc/PID/stat */

static bool thread_missing(const struct call *call)
{
	return tgkill(call->process, call->thread, 0) < 0 && errno == ESRCH;
}

/* A thread that was joined may exist for a moment longer, and is marked as exiting. */
static bool thread_exiting(const struct call *call)
{
	char path[64], text[512] = "";
	const char *end;
	unsigned int flags = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", call->process, call->thread);
	file = fopen(path, "re");
	if (!file)
		return thread_missing(call);
	end = fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL; /* of its name */
	fclose(file);
	if (!end || sscanf(end, ") %*c %*d %*d %*d %*d %*d %u", &flags) != 1)
		return thread_missing(call);
	return flags & EXITING;
}

struct walk {
	const struct call *call;
	bool met, passed;
};

/* For each frame: the address at which it goes on, and the frame address of what it called. */
static _Unwind_Reason_Code on_frame(struct _Unwind_Context *context, void *user)
{
	struct walk *walk = user;
	const struct call *call = walk->call;
	const uintptr_t frame = _Unwind_GetCFA(context);

	/* With another owner, a call of another subscriber has taken the place. */
	if (frame == call->frame && _Unwind_GetIP(context) == (uintptr_t)call->back)
		walk->met = *call->owner == call;
	walk->passed = frame > call->frame;
	return walk->met || walk->passed ? _URC_NORMAL_STOP : _URC_NO_REASON;
}

static bool is_off_stack(const struct call *call)
{
	struct walk walk = { .call = call };

	if (call->thread != thread_id(call->process))
		return thread_missing(call) || thread_exiting(call);
	if (!on_this_stack((uintptr_t)__builtin_dwarf_cfa(), call->frame))
		return false;
	_Unwind_Backtrace(on_frame, &walk);
	return walk.passed;
}

bool call_left(struct call *call)
{
	if (call->running && !call->left)
		call->left = is_off_stack(call);
	return call->left;
}

int call_refuse(struct call *call, const char *name)
{
	if (call_left(call))
		return error_set(EDEADLK,
				 "%s: a handler of this subscriber was left by longjmp or an "
				 "exception; only tb_subscriber_close is possible now",
				 name);
	return error_set(EBUSY, "%s: called from a handler", name);
}
