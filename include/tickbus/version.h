/* SPDX-License-Identifier: Apache-2.0 */
/* The version of the headers, and of the library that the program runs with.
 *
 * The macros are what a program was compiled with. The calls answer for the library that was
 * loaded, which may be newer. docs/compatibility.md says which combinations work.
 *
 * Errors   none.
 * Threads  any thread. */
#ifndef TICKBUS_VERSION_H
#define TICKBUS_VERSION_H

#include <stdint.h>

#include "tickbus/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TB_VERSION_MAJOR 0
#define TB_VERSION_MINOR 1
#define TB_VERSION_PATCH 0
#define TB_VERSION       "0.1.0"

/* A version as a number that rises with each release. Each part is below 1,000. */
#define TB_VERSION_OF(major, minor, patch)                                                         \
	((uint32_t)(major)*1000000u + (uint32_t)(minor)*1000u + (uint32_t)(patch))
#define TB_VERSION_NUMBER TB_VERSION_OF(TB_VERSION_MAJOR, TB_VERSION_MINOR, TB_VERSION_PATCH)

/* The version of the library as text, "MAJOR.MINOR.PATCH", valid as long as the library is loaded.
 * If number is not NULL, *number becomes the version as a number, to compare with TB_VERSION_OF. */
TB_API const char *tb_version(uint32_t *number);

#ifdef __cplusplus
}
#endif

#endif
