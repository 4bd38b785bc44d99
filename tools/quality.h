/* SPDX-License-Identifier: Apache-2.0 */
/* The quality of a topic as text. */
#ifndef TICKBUS_TOOLS_QUALITY_H
#define TICKBUS_TOOLS_QUALITY_H

#include <stdint.h>

/* "good", "suspect" or "rebuilding". "unknown" for a state of a newer library. */
const char *quality_word(uint32_t state);

#endif
