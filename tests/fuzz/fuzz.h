/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz targets: one function that takes any bytes, and stops the program where something does not
 * hold.
 *
 *   FUZZ_TARGET(data, size)
 *   {
 *           FUZZ_EXPECT(what must hold for any bytes);
 *           return 0;
 *   }
 *
 * The same file is a libFuzzer target where it is linked with -fsanitize=fuzzer (scripts/fuzz), and
 * else, with plain.c, a program that replays files and runs seeded mutations of them. */
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

/* Set by a target whose input got past the first check: inputs that are all refused at the door
 * show nothing of what is behind it. */
extern bool fuzz_deep;

/* The next count bytes of the input, zeros where it is too short. */
static inline void fuzz_take(const uint8_t **data, size_t *size, void *into, size_t count)
{
	uint8_t *bytes = into;

	for (size_t i = 0; i < count; i++)
		bytes[i] = i < *size ? (*data)[i] : 0;
	*data += count < *size ? count : *size;
	*size -= count < *size ? count : *size;
}

/* The input as a file that has a path; closed by fuzz_file_close. */
int fuzz_file_open(const uint8_t *data, size_t size, char path[32]);
void fuzz_file_close(int fd);

#endif
