/* SPDX-License-Identifier: Apache-2.0 */
/* The progress lines of a group, at any moment of a write. A line's head counts the records up to
 * its W. W is the time of a finished message. */
#ifndef TICKBUS_TESTS_SIMULATION_LINES_H
#define TICKBUS_TESTS_SIMULATION_LINES_H

/* Checks the line of each topic of the group, as it is in memory now. */
void lines_check(void);

#endif
