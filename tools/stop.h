/* SPDX-License-Identifier: Apache-2.0 */
/* SIGINT and SIGTERM request a stop: through a flag for running loops and a descriptor for waiting
 * loops. A second signal ends the process, in case a loop hangs in a write.
 *
 * SIGHUP requests that files are read again, if the command asks for that. */
#ifndef TICKBUS_TOOLS_STOP_H
#define TICKBUS_TOOLS_STOP_H

#include <stdbool.h>

/* Installs the handlers. Returns a descriptor that is readable after a signal, or -errno. */
int stop_open(void);
bool stop_asked(void);

/* After stop_open(): SIGHUP makes the descriptor readable and no longer ends the process. */
void stop_hangups(void);

/* True once after one or more SIGHUP. It takes what the descriptor had to read: look at
 * stop_asked() before waiting. */
bool stop_hung_up(void);

#endif
