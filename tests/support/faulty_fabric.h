/* SPDX-License-Identifier: Apache-2.0 */
/* A fabric for tests, "faulty:NAME": multicast, and each subscriber's connection has faults that a
 * subscriber gets over without a loss. Its notices are doubled, reordered and late, and few are
 * lost. Its READs are late and torn. A subscriber at "faulty:NAME,notices=0" gets no notices. */
#ifndef TICKBUS_TESTS_FAULTY_FABRIC_H
#define TICKBUS_TESTS_FAULTY_FABRIC_H

#include <stdint.h>

/* Adds the fabric, and the fabrics bytewise and multicast below it, before any thread uses a
 * fabric.
 */
void faulty_add(uint64_t seed);

#endif
