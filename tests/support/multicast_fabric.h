/* SPDX-License-Identifier: Apache-2.0 */
/* A fabric for tests, "multicast:NAME": bytewise with notices, which go over UDP multicast on
 * loopback. A subscriber's "multicast:NAME,notices=0" does without. */
#ifndef TICKBUS_TESTS_MULTICAST_FABRIC_H
#define TICKBUS_TESTS_MULTICAST_FABRIC_H

#include <stdbool.h>

/* Adds the fabric; bytewise has to be there. Before any thread uses a fabric. */
void multicast_add(void);

/* What is sent to the group ("GROUP:PORT") is lost from now on, or not any more. */
void multicast_lose(const char *group, bool lost);
/* No link can receive the group from now on, or any can again. */
void multicast_refuse(const char *group, bool refused);
/* No link receives the group any more, as when its join failed later. By the thread that polls. */
void multicast_end(const char *group);

#endif
