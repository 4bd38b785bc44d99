/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

bool fuzz_deep;

int fuzz_file_open(const uint8_t *data, size_t size, char path[32])
{
	const int fd = memfd_create("fuzz", MFD_CLOEXEC);

	FUZZ_EXPECT(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, 32, "/proc/self/fd/%d", fd);
	return fd;
}

void fuzz_file_close(int fd)
{
	close(fd);
}
