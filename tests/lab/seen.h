/* SPDX-License-Identifier: Apache-2.0 */
/* Counts what no counter of the library shows. Linked between the library's parts. */
#ifndef TICKBUS_TESTS_LAB_SEEN_H
#define TICKBUS_TESTS_LAB_SEEN_H

#include <stdint.h>

struct seen {
	uint64_t reads; /* completed READs of records, without those of progress lines */
	uint64_t mixed; /* copies that look like the wanted record but fail its check */
};

extern struct seen *seen; /* of the subscriber that is polled */

#endif
