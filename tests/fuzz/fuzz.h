/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz targets: a function that takes any bytes, and ends the program if an expectation fails.
 *
 *   FUZZ_TARGET(data, size)
 *   {
 *           FUZZ_EXPECT(what must hold for any bytes);
 *           return 0;
 *   }
 *
 * Linked with -fsanitize=fuzzer (scripts/fuzz), the file is a libFuzzer target. Linked with
 * plain.c, it is a program that replays files and runs seeded mutations of them. */
#ifndef TICKBUS_TESTS_FUZZ_H
#define TICKBUS_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FUZZ_TARGET(data, size)                                                                    \
	int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);                              \
	int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)

#define FUZZ_EXPECT(condition)                                                                     \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__,          \
				#condition);                                                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* Set by a target whose input passes the first check. Inputs that are all refused by it do not test
 * the code behind it. */
extern bool fuzz_deep;

/* The next count bytes of the input, filled up with zeros. */
static inline void fuzz_take(const uint8_t **data, size_t *size, void *into, size_t count)
{
	uint8_t *bytes = into;

	for (size_t i = 0; i < count; i++)
		bytes[i] = i < *size ? (*data)[i] : 0;
	*data += count < *size ? count : *size;
	*size -= count < *size ? count : *size;
}

/* The input as a file with a path, until fuzz_file_close. */
int fuzz_file_open(const uint8_t *data, size_t size, char path[32]);
void fuzz_file_close(int fd);

#endif
