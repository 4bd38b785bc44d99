/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the log that the options name.
 *
 * Anyone who can connect can cause lines: each endpoint writes at most 1000 a second of its peers,
 * and then how many it left out. */
#ifndef TICKBUS_PUBLISHER_LOG_H
#define TICKBUS_PUBLISHER_LOG_H

#include "publisher/state.h"

void publisher_log(const struct tb_publisher *, enum tb_log_level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* A warning that a peer caused; under the lock. */
void endpoint_log(struct endpoint *, const char *text);
/* Ends the second if it is over: says how many lines were left out. */
void endpoint_log_second(struct endpoint *);
/* Says now how many lines were left out. */
void endpoint_log_rest(struct endpoint *);

#endif
