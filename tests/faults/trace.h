/* SPDX-License-Identifier: Apache-2.0 */
/* Steps a thread of another process, instruction by instruction (ptrace). */
#ifndef TICKBUS_TESTS_TRACE_H
#define TICKBUS_TESTS_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Whether this user may trace its own processes. */
bool trace_may(void);

/* After each call the thread is stopped. A failure fails the test. */
void trace_begin(pid_t thread);
void trace_step(pid_t thread);
/* Runs to the next system call and stops before it. Returns its number and arguments. */
uint64_t trace_call(pid_t thread, uint64_t arguments[6]);
/* Runs to the end of that system call. */
void trace_called(pid_t thread);

/* Lets the thread go on, with this signal unless 0. */
void trace_end(pid_t thread, int signal);

#endif
