/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/shm/shm_access.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>

#include "bus/bounds.h"
#include "bus/error.h"
#include "bus/shm/shm_location.h"

#define ATTRIBUTE   "system.posix_acl_access"
#define GROUPS_MAX  1024 /* of a client */
#define USE         (ACL_READ | ACL_WRITE)
#define ENTRIES_MAX (2 * BOUND_ACCOUNTS_MAX + 4)

struct list {
	struct posix_acl_xattr_header header;
	struct posix_acl_xattr_entry entries[ENTRIES_MAX];
};

int shm_access_copy(struct shm_access *access, const struct fabric_access *from)
{
	access->user_count = from->user_count;
	access->group_count = from->group_count;
	access->users = calloc(from->user_count + 1, sizeof(uid_t));
	access->groups = calloc(from->group_count + 1, sizeof(gid_t));
	if (!access->users || !access->groups)
		return error_set(ENOMEM, "no memory for the users that may connect");
	for (size_t i = 0; i < from->user_count; i++)
		access->users[i] = from->users[i];
	for (size_t i = 0; i < from->group_count; i++)
		access->groups[i] = from->groups[i];
	return 0;
}

void shm_access_free(struct shm_access *access)
{
	free(access->users);
	free(access->groups);
}

bool shm_access_is_shared(const struct shm_access *access)
{
	return access->user_count + access->group_count > 0;
}

/* -- the socket ---------------------------------------------------------------------------------
 */

static struct posix_acl_xattr_entry entry(int tag, int permissions, uint32_t id)
{
	return (struct posix_acl_xattr_entry){ htole16((uint16_t)tag),
					       htole16((uint16_t)permissions), htole32(id) };
}

/* Returns the list's bytes. The kernel wants the tags in this order. */
static size_t list_fill(const struct shm_access *access, struct list *list)
{
	size_t count = 0;

	list->header.a_version = htole32(POSIX_ACL_XATTR_VERSION);
	list->entries[count++] = entry(ACL_USER_OBJ, USE, (uint32_t)ACL_UNDEFINED_ID);
	for (size_t i = 0; i < access->user_count; i++)
		list->entries[count++] = entry(ACL_USER, USE, access->users[i]);
	list->entries[count++] = entry(ACL_GROUP_OBJ, 0, (uint32_t)ACL_UNDEFINED_ID);
	for (size_t i = 0; i < access->group_count; i++)
		list->entries[count++] = entry(ACL_GROUP, USE, access->groups[i]);
	list->entries[count++] = entry(ACL_MASK, USE, (uint32_t)ACL_UNDEFINED_ID);
	list->entries[count++] = entry(ACL_OTHER, 0, (uint32_t)ACL_UNDEFINED_ID);
	return sizeof(list->header) + count * sizeof(list->entries[0]);
}

/* An id that stands for all ids that the user namespace does not map. No list can name them. */
static bool is_open(const struct shm_access *access)
{
	for (size_t i = 0; i < access->user_count; i++)
		if (!shm_user_is_known(access->users[i]))
			return true;
	for (size_t i = 0; i < access->group_count; i++)
		if (!shm_group_is_known(access->groups[i]))
			return true;
	return false;
}

/* A file system without lists still has the socket's own group. */
static bool group_set(const struct shm_access *access, const char *path)
{
	return access->user_count == 0 && access->group_count == 1 &&
	       chown(path, (uid_t)-1, access->groups[0]) == 0 && chmod(path, 0660) == 0;
}

int shm_access_set(const struct shm_access *access, const char *path)
{
	struct list list;
	const char *why = "an id stands for all ids that this user namespace does not map";

	if (chmod(path, 0600) < 0)
		return -errno;
	if (!shm_access_is_shared(access))
		return 0;
	if (!is_open(access)) {
		if (access->user_count + access->group_count + 4 <= ENTRIES_MAX &&
		    setxattr(path, ATTRIBUTE, &list, list_fill(access, &list), 0) == 0)
			return 0;
		why = strerror(errno);
		if (group_set(access, path))
			return 0;
	}
	if (chmod(path, 0666) < 0)
		return -errno;
	error_set(0,
		  "every local user may connect to %s, and is refused afterwards: its permissions "
		  "cannot name the users and groups (%s)",
		  path, why);
	return 1;
}

/* -- a connection -------------------------------------------------------------------------------
 */

static bool group_listed(const struct shm_access *access, gid_t group)
{
	for (size_t i = 0; i < access->group_count; i++)
		if (access->groups[i] == group)
			return true;
	return false;
}

bool shm_access_allows(const struct shm_access *access, int socket, const struct ucred *peer)
{
	gid_t groups[GROUPS_MAX];
	socklen_t length = sizeof(groups);

	if (peer->uid == geteuid() || peer->uid == 0)
		return true;
	for (size_t i = 0; i < access->user_count; i++)
		if (access->users[i] == peer->uid)
			return true;
	if (access->group_count == 0)
		return false;
	if (group_listed(access, peer->gid))
		return true;
	if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups, &length) < 0)
		return false;
	for (size_t i = 0; i < length / sizeof(gid_t); i++)
		if (group_listed(access, groups[i]))
			return true;
	return false;
}
