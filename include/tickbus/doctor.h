/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor: whether this host has what a bus over RDMA needs, finding by finding.
 *
 * Errors   the number of findings that are bad, or -errno; tb_error() has the words.
 * Threads  any; takes up to a second for each device.
 * Memory   what the callback is given is valid inside it. */
#ifndef TICKBUS_DOCTOR_H
#define TICKBUS_DOCTOR_H

#include <stddef.h>

#include "tickbus/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tb_verdict {
	TB_VERDICT_GOOD = 1,
	TB_VERDICT_ADVICE, /* it works, and could be better; or it is not needed by everyone */
	TB_VERDICT_BAD,    /* a bus over RDMA will not work with it */
};

struct tb_finding {
	size_t size; /* of this structure, as the library fills it; grows at its end */
	enum tb_verdict verdict;
	const char *about;  /* "rxe0 port 1", "locked memory" */
	const char *found;  /* what is so */
	const char *remedy; /* what to do about it; "" where there is nothing to do */
};

/* Looks at devices, their NUMA nodes, ports, addresses and multicast, at PFC and ECN, at locked
 * memory and huge pages. */
TB_API int tb_doctor(void (*finding)(void *user, const struct tb_finding *), void *user);

#ifdef __cplusplus
}
#endif

#endif
