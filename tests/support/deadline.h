/* SPDX-License-Identifier: Apache-2.0 */
/* How long tests wait for what has to happen. It never takes that long: what has not happened by
 * then never will. TICKBUS_TEST_DEADLINE_MS is for who runs many tests that must fail
 * (scripts/mutants). */
#ifndef TICKBUS_TESTS_DEADLINE_H
#define TICKBUS_TESTS_DEADLINE_H

#include <stdint.h>
#include <stdlib.h>

static inline uint32_t deadline_ms(void)
{
	const char *given = getenv("TICKBUS_TEST_DEADLINE_MS");

	return given ? (uint32_t)strtoul(given, NULL, 0) : 20000;
}

#endif
