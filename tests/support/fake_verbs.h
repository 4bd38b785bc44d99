/* SPDX-License-Identifier: Apache-2.0 */
/* What a device that a test makes gives out, in the place of libibverbs and librdmacm: the same for
 * every one of them. How much of it was not given back yet is counted. */
#ifndef TICKBUS_TESTS_SUPPORT_FAKE_VERBS_H
#define TICKBUS_TESTS_SUPPORT_FAKE_VERBS_H

struct fake_verbs {
	int channels, domains, queues;
};

extern struct fake_verbs fake_verbs;

#endif
