/* SPDX-License-Identifier: Apache-2.0 */
/* A fabric for tests, "heard:NAME": bytewise with notices, which go over UDP multicast on loopback.
 * A subscriber's "heard:NAME,notices=0" does without. */
#ifndef TICKBUS_TESTS_HEARD_H
#define TICKBUS_TESTS_HEARD_H

#include <stdbool.h>

/* Adds the fabric; bytewise has to be there. Before any thread uses a fabric. */
void heard_add(void);

/* What is sent to the group ("GROUP:PORT") is lost from now on, or not any more. */
void heard_lose(const char *group, bool lost);
/* No link can receive the group from now on, or any can again. */
void heard_refuse(const char *group, bool refused);
/* No link receives the group any more, as when its join failed later. By the thread that polls. */
void heard_end(const char *group);

#endif
