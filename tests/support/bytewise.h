/* SPDX-License-Identifier: Apache-2.0 */
/* A fabric for tests, "bytewise:NAME": control as in shm, but a READ copies byte by byte in random
 * order, some when it is posted and some later, and READs complete in any order. Nothing that leans
 * on the order or the wholeness of shared memory survives it. What a peer is given that was exposed
 * in another realm than its own does not reach it, as with a device's protection domains. */
#ifndef TICKBUS_TESTS_BYTEWISE_H
#define TICKBUS_TESTS_BYTEWISE_H

#include <stdint.h>

/* Adds the fabric; the seed decides all orders. Before any thread uses a fabric. */
void bytewise_add(uint64_t seed);

#endif
