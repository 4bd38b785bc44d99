/* SPDX-License-Identifier: Apache-2.0 */
/* How long tests wait for an expected event: so long that a later event counts as missing.
 * TICKBUS_TEST_DEADLINE_MS shortens it for many tests that must fail (scripts/mutants). */
#ifndef TICKBUS_TESTS_DEADLINE_H
#define TICKBUS_TESTS_DEADLINE_H

#include <stdint.h>
#include <stdlib.h>

static inline uint32_t deadline_ms(void)
{
	const char *given = getenv("TICKBUS_TEST_DEADLINE_MS");

	return given ? (uint32_t)strtoul(given, NULL, 0) : 50000;
}

#endif
