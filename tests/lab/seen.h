/* SPDX-License-Identifier: Apache-2.0 */
/* What a subscriber's library sees and no counter tells: linked between it and its own parts. */
#ifndef TICKBUS_TESTS_LAB_SEEN_H
#define TICKBUS_TESTS_LAB_SEEN_H

#include <stdint.h>

struct seen {
	uint64_t reads; /* of records that were answered: none of progress lines */
	uint64_t mixed; /* copies of the record that was wanted, by all but their check */
};

extern struct seen *seen; /* of who is polled */

#endif
