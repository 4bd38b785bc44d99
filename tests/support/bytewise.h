/* SPDX-License-Identifier: Apache-2.0 */
/* A fabric for tests, "bytewise:NAME". Control messages go as in shm. A READ copies byte by byte in
 * random order, partly when it is posted and partly later, and READs complete in any order. So code
 * that relies on the order or atomicity of shared memory fails. As with a device's protection
 * domains, a peer does not receive memory that is exposed in another realm. */
#ifndef TICKBUS_TESTS_BYTEWISE_H
#define TICKBUS_TESTS_BYTEWISE_H

#include <stdint.h>

/* Adds the fabric, before any thread uses a fabric. The seed determines all orders. */
void bytewise_add(uint64_t seed);

#endif
