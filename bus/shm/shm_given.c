/* SPDX-License-Identifier: Apache-2.0 */
/* A descriptor of another process is looked at by fcntl(F_GET_SEALS) alone, which never waits. Only
 * memory files answer it, and they close without waiting. */
#include "bus/shm/shm_given.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether a page within the file's size is missing: its reader would pay for it. Allocated blocks
 * do not show that, because they may lie beyond the end. The seals must be there before the look:
 * they keep holes out from then on. Without them the subscriber refuses the memory. The look waits
 * for a lock of the file, which a hostile publisher can hold. */
static bool hole_find(int fd, int seals, off_t *hole, off_t *size)
{
	struct stat status;

	if (!(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) || !(seals & F_SEAL_SHRINK) ||
	    fstat(fd, &status) < 0)
		return false;
	*size = status.st_size;
	*hole = lseek(fd, 0, SEEK_HOLE);
	return *hole >= 0 && *hole < *size;
}

const char *shm_given_wrong(const struct msghdr *header, unsigned int count, int fd, char *why,
			    size_t bytes)
{
	const bool more = header->msg_flags & MSG_CTRUNC;
	off_t hole, size;
	int seals;

	if (count != 1 || more) {
		snprintf(why, bytes, "memory handed over: found %u descriptors%s, expected 1",
			 count, more ? " or more" : "");
		return why;
	}
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0)
		return "memory handed over: found a descriptor that is no memfd, expected sealed "
		       "memory";
	if (!hole_find(fd, seals, &hole, &size))
		return NULL;
	snprintf(why, bytes,
		 "memory handed over: found no page at byte %lld, expected all pages of its %lld "
		 "bytes",
		 (long long)hole, (long long)size);
	return why;
}
