/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of libibverbs and librdmacm that are the same for every fake device. Counts the objects
 * that were made and are not destroyed yet. */
#ifndef TICKBUS_TESTS_SUPPORT_FAKE_VERBS_H
#define TICKBUS_TESTS_SUPPORT_FAKE_VERBS_H

struct fake_verbs {
	int channels, domains, queues;
};

extern struct fake_verbs fake_verbs;

#endif
