/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/shm/shm_site.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bus/error.h"

int shm_site_open(struct shm_site *site, const char *name)
{
	int result;

	*site = (struct shm_site){ .lock.fd = -1, .socket = -1 };
	result = shm_location_listen(name, &site->location);
	if (result < 0)
		return result;
	site->name = strdup(name);
	if (!site->name)
		return error_set(ENOMEM, "address shm:%s: no memory", name);
	return shm_lock_take(&site->lock, site->name, &site->location);
}

static int no_socket(const struct shm_site *site)
{
	return error_set(errno, "address shm:%s: cannot create a socket at %s: %s", site->name,
			 site->location.address.sun_path, strerror(errno));
}

int shm_site_socket(struct shm_site *site)
{
	const struct sockaddr_un *address = &site->location.address;
	struct stat there;
	int result, fd;

	if (lstat(address->sun_path, &there) == 0 && !S_ISSOCK(there.st_mode))
		return error_set(EEXIST,
				 "address shm:%s: found something else at %s, expected a socket or "
				 "nothing",
				 site->name, address->sun_path);
	result = shm_lock_check_socket(site->name, &site->location);
	if (result < 0)
		return result;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return no_socket(site);
	site->socket = fd;
	return 0;
}

int shm_site_bind(struct shm_site *site)
{
	const struct sockaddr_un *address = &site->location.address;
	struct stat there;

	unlink(address->sun_path); /* a killed publisher left it: we hold the lock */
	if (bind(site->socket, (const struct sockaddr *)address, sizeof(*address)) < 0 ||
	    lstat(address->sun_path, &there) < 0)
		return no_socket(site);
	site->device = there.st_dev;
	site->inode = there.st_ino;
	return 0;
}

bool shm_site_has_socket(const struct shm_site *site)
{
	struct stat there;

	return site->socket >= 0 && lstat(site->location.address.sun_path, &there) == 0 &&
	       there.st_dev == site->device && there.st_ino == site->inode;
}

bool shm_site_is_whole(const struct shm_site *site)
{
	return shm_site_has_socket(site) && shm_lock_holds(&site->lock, &site->location);
}

/* The folder may be gone too. In /tmp another user may have made it since. */
static int folder_again(const struct shm_site *site)
{
	struct shm_location now;
	const int result = shm_location_listen(site->name, &now);

	if (result < 0)
		return result;
	if (strcmp(now.address.sun_path, site->location.address.sun_path) == 0)
		return 0;
	return error_set(EACCES,
			 "address shm:%s: %s cannot be made again: its folder cannot be used any "
			 "more",
			 site->name, site->location.address.sun_path);
}

/* Another publisher that holds the lock may be about to find this publisher's socket, and to end.
 */
static bool another_has_socket(const struct shm_site *site)
{
	struct stat there;

	return lstat(site->location.address.sun_path, &there) == 0 && !shm_site_has_socket(site);
}

int shm_site_lock_again(struct shm_site *site)
{
	struct shm_lock next = { .fd = -1 };
	int result = folder_again(site);

	if (result < 0 || shm_lock_holds(&site->lock, &site->location))
		return result;
	result = shm_lock_take(&next, site->name, &site->location);
	if (result < 0) {
		shm_lock_close(&next);
		return result == -EADDRINUSE && !another_has_socket(site) ? -EBUSY : result;
	}
	shm_lock_close(&site->lock);
	site->lock = next;
	return 0;
}

void shm_site_leave(struct shm_site *site)
{
	if (site->lock.taken && shm_lock_holds(&site->lock, &site->location)) {
		if (shm_site_has_socket(site))
			unlink(site->location.address.sun_path);
		unlink(site->location.lock);
	}
	if (site->socket >= 0)
		close(site->socket);
	site->socket = -1;
}

void shm_site_close(struct shm_site *site)
{
	shm_lock_close(&site->lock);
	free(site->name);
	site->name = NULL;
}
