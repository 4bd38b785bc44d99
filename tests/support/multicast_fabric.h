/* SPDX-License-Identifier: Apache-2.0 */
/* A fabric for tests, "multicast:NAME": bytewise with notices over UDP multicast on loopback. A
 * subscriber at "multicast:NAME,notices=0" gets no notices. */
#ifndef TICKBUS_TESTS_MULTICAST_FABRIC_H
#define TICKBUS_TESTS_MULTICAST_FABRIC_H

#include <stdbool.h>

/* Adds the fabric, after bytewise and before any thread uses a fabric. */
void multicast_add(void);

/* Datagrams to the group ("GROUP:PORT") are lost from now on, or arrive again. */
void multicast_lose(const char *group, bool lost);
/* From now on no link can join the group, or links can join again. */
void multicast_refuse(const char *group, bool refused);
/* Ends the receivers of the group, as if their join failed later. Called by the thread that polls.
 */
void multicast_end(const char *group);

#endif
