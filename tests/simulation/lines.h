/* SPDX-License-Identifier: Apache-2.0 */
/* The progress lines. In a group, at any moment of a write, a line's head counts the records up to
 * its W. W is the time of a finished message. After each call of the writer, a line proves itself.
 */
#ifndef TICKBUS_TESTS_SIMULATION_LINES_H
#define TICKBUS_TESTS_SIMULATION_LINES_H

/* Checks the line of each topic of the group, as it is in memory now. */
void lines_check(void);

struct sim_topic;

/* A call of the writer has returned. */
void lines_written(const struct sim_topic *);

#endif
