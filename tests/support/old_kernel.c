/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/old_kernel.h"

#include <errno.h>
#include <sys/socket.h>

#include "bus/shm/shm_frame.h"

bool old_kernel;

int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes);

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
	if (old_kernel && level == SOL_SOCKET && name == SO_PASSRIGHTS) {
		errno = ENOPROTOOPT;
		return -1;
	}
	return __real_setsockopt(fd, level, name, value, bytes);
}
