/* SPDX-License-Identifier: Apache-2.0 */
/* Another process's thread, instruction by instruction (ptrace). */
#ifndef TICKBUS_TESTS_TRACE_H
#define TICKBUS_TESTS_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Whether this user may do so with processes of its own. */
bool trace_may(void);

/* Each stops the thread, or finds it stopped, or fails the test. */
void trace_begin(pid_t thread);
void trace_step(pid_t thread);
/* To the next system call: its number, before it is made; what it is given. */
uint64_t trace_call(pid_t thread, uint64_t given[6]);
/* Behind the call that trace_call came to. */
void trace_called(pid_t thread);

/* It goes on by itself, or stays stopped by the signal. */
void trace_end(pid_t thread, int signal);

#endif
