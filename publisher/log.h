/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to the log handler of the options.
 *
 * Any client can cause messages, as fast as it connects, and must not fill the disk. So each
 * endpoint logs at most 1000 messages about clients at once, and 1 more per second after that. Each
 * second it logs how many were left out. */
#ifndef TICKBUS_PUBLISHER_LOG_H
#define TICKBUS_PUBLISHER_LOG_H

#include "publisher/state.h"

void publisher_log(const struct tb_publisher *, enum tb_log_level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* A warning about a client; under the lock. */
void endpoint_log(struct endpoint *, const char *text);
/* If the second is over, logs how many messages were left out, and allows one more. */
void endpoint_log_second(struct endpoint *);
/* Logs now how many messages were left out. */
void endpoint_log_rest(struct endpoint *);

#endif
