/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/old_kernel.h"

#include <errno.h>
#include <sys/socket.h>

#include "bus/shm/shm_frame.h"

bool old_kernel;
unsigned int old_kernel_addresses;

int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes);

static bool has_address(int fd)
{
	struct sockaddr_storage address;
	socklen_t bytes = sizeof(address);

	return getsockname(fd, (struct sockaddr *)&address, &bytes) == 0 &&
	       bytes > sizeof(address.ss_family);
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
	if (old_kernel && level == SOL_SOCKET && name == SO_PASSRIGHTS) {
		old_kernel_addresses += has_address(fd);
		errno = ENOPROTOOPT;
		return -1;
	}
	return __real_setsockopt(fd, level, name, value, bytes);
}
