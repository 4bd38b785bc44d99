/* SPDX-License-Identifier: Apache-2.0 */
/* What a device that a test makes gives out, in the place of libibverbs and librdmacm: the same for
 * every one of them. How much of it was not given back yet is counted. */
#ifndef TICKBUS_TESTS_SUPPORT_GIVEN_H
#define TICKBUS_TESTS_SUPPORT_GIVEN_H

struct given {
	int channels, domains, queues;
};

extern struct given given;

#endif
