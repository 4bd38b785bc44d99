/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/faults/trace.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

bool trace_may(void)
{
	const pid_t pid = fork();
	int status;
	bool may;

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	may = ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0;
	kill(pid, SIGKILL);
	waitpid(pid, &status, __WALL);
	return may;
}

static void stopped(pid_t thread)
{
	int status;

	cr_assert_eq(waitpid(thread, &status, __WALL), thread);
	cr_assert(WIFSTOPPED(status), "the traced process ended");
}

void trace_begin(pid_t thread)
{
	cr_assert_eq(ptrace(PTRACE_SEIZE, thread, NULL, (void *)PTRACE_O_TRACESYSGOOD), 0);
	cr_assert_eq(ptrace(PTRACE_INTERRUPT, thread, NULL, NULL), 0);
	stopped(thread);
}

void trace_step(pid_t thread)
{
	cr_assert_eq(ptrace(PTRACE_SINGLESTEP, thread, NULL, NULL), 0);
	stopped(thread);
}

/* Runs the thread until it enters or leaves a system call. */
static struct __ptrace_syscall_info border(pid_t thread)
{
	struct __ptrace_syscall_info info = { .op = PTRACE_SYSCALL_INFO_NONE };

	cr_assert_eq(ptrace(PTRACE_SYSCALL, thread, NULL, NULL), 0);
	stopped(thread);
	cr_assert_gt(ptrace(PTRACE_GET_SYSCALL_INFO, thread, (void *)sizeof(info), &info), 0);
	return info;
}

uint64_t trace_call(pid_t thread, uint64_t arguments[6])
{
	struct __ptrace_syscall_info info;

	do
		info = border(thread);
	while (info.op != PTRACE_SYSCALL_INFO_ENTRY);
	memcpy(arguments, info.entry.args, 6 * sizeof(arguments[0]));
	return info.entry.nr;
}

void trace_called(pid_t thread)
{
	while (border(thread).op != PTRACE_SYSCALL_INFO_EXIT)
		;
}

void trace_end(pid_t thread, int signal)
{
	cr_assert_eq(ptrace(PTRACE_DETACH, thread, NULL, (void *)(intptr_t)signal), 0);
}
