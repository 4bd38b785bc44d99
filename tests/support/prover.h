/* SPDX-License-Identifier: Apache-2.0 */
/* The publisher's side of the handshake, for tests that stand in for a publisher. */
#ifndef TICKBUS_TESTS_SUPPORT_PROVER_H
#define TICKBUS_TESTS_SUPPORT_PROVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bus/fabric.h"

/* A hello without a proof, which is answered by a challenge. */
bool prover_is_first(const void *hello, size_t bytes);
/* True if a second hello proves this ticket (NULL: no ticket) to the publisher at an address. */
bool prover_checks(const void *hello, const char *identity, const uint8_t *ticket);
/* Writes into a welcome the proof that answers a second hello. */
void prover_signs(const void *hello, const char *identity, const uint8_t *ticket, uint8_t *welcome,
		  size_t bytes);

#endif
