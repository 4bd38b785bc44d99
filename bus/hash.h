/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3-64, inlined: the inputs are short, and a call would cost as much as the hash. Only files
 * that make or verify checks, or compare words, include this. */
#ifndef TICKBUS_BUS_HASH_H
#define TICKBUS_BUS_HASH_H

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wpedantic"
#define XXH_INLINE_ALL
#include <xxhash.h>
#pragma GCC diagnostic pop

#endif
