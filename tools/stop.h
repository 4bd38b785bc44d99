/* SPDX-License-Identifier: Apache-2.0 */
/* SIGINT and SIGTERM as a wish to stop: a flag for loops that run, a descriptor for those that
 * wait. A second signal ends the process, should a loop be stuck in a write. */
#ifndef TICKBUS_TOOLS_STOP_H
#define TICKBUS_TOOLS_STOP_H

#include <stdbool.h>

/* Takes the signals over. The descriptor, readable once one came, or -errno. */
int stop_open(void);
bool stop_asked(void);

#endif
