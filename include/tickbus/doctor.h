/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor: checks whether this host has what a bus over RDMA needs.
 *
 * Errors   the number of bad findings, or -errno; tb_error() has the message.
 * Threads  any thread. A call takes up to a second for each device.
 * Memory   a finding is valid inside the callback only. The callback must return: if it is left by
 *          longjmp or an exception, memory and devices stay open. */
#ifndef TICKBUS_DOCTOR_H
#define TICKBUS_DOCTOR_H

#include <stddef.h>

#include "tickbus/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tb_verdict {
	TB_VERDICT_GOOD = 1,
	TB_VERDICT_ADVICE, /* works but could be better, or not everyone needs it */
	TB_VERDICT_BAD,    /* a bus over RDMA will not work with it */
};

struct tb_finding {
	size_t size; /* of this structure, as the library fills it; it grows at its end */
	enum tb_verdict verdict;
	const char *about;  /* "rxe0 port 1", "locked memory" */
	const char *found;  /* the present state */
	const char *remedy; /* what to do about it; "" if there is nothing to do */
};

/* Checks devices, their NUMA nodes, ports, addresses and multicast; PFC and ECN; the kernel;
 * locked memory and huge pages. Calls `finding` for each result. */
TB_API int tb_doctor(void (*finding)(void *user, const struct tb_finding *), void *user);

#ifdef __cplusplus
}
#endif

#endif
