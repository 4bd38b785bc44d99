/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a publisher hands over with a frame. */
#ifndef TICKBUS_BUS_SHM_GIVEN_H
#define TICKBUS_BUS_SHM_GIVEN_H

#include <stddef.h>
#include <sys/socket.h>

/* SCM_MAX_FD of one frame: the kernel would close those without room. */
#define SHM_GIVEN_MAX 253

/* Checks the descriptors of a received frame: one memfd without holes is expected. NULL, or what is
 * wrong, written to `why`. May wait for a lock of the file. */
const char *shm_given_wrong(const struct msghdr *, unsigned int count, int fd, char *why,
			    size_t bytes);

#endif
