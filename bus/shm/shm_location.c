/* SPDX-License-Identifier: Apache-2.0 */
/* The location of shm:NAME. If TICKBUS_RUNTIME_DIR is set, it is NAME.sock in that folder.
 * Otherwise it is in the first usable folder of /run/tickbus, $XDG_RUNTIME_DIR/tickbus and
 * /tmp/tickbus-UID. A folder of this user is used only if no other user may write to it. */
#include "bus/shm/shm_location.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bus/error.h"

#define NAME_MAX_BYTES 63
#define FOLDERS_MAX    3
#define SYSTEM_FOLDER  "/run/tickbus"

struct folder {
	char path[PATH_MAX]; /* a cut path might name another folder */
	bool own;            /* of this user, made when it is needed */
};

static int name_check(const char *name)
{
	const size_t length = strnlen(name, NAME_MAX_BYTES + 1);

	if (length == 0 || length > NAME_MAX_BYTES || name[0] == '.')
		goto wrong;
	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char)name[i]) && !strchr("._-", name[i]))
			goto wrong;
	return 0;
wrong:
	return error_set(EINVAL,
			 "address shm:%.64s: expected shm:NAME with a name of 1 to %d letters, "
			 "digits, '.', '_' and '-' that does not begin with '.'",
			 name, NAME_MAX_BYTES);
}

static int location_fill(struct shm_location *location, const char *folder, const char *name)
{
	const size_t room = sizeof(location->address.sun_path);

	memset(location, 0, sizeof(*location));
	location->address.sun_family = AF_UNIX;
	if ((size_t)snprintf(location->address.sun_path, room, "%s/%s.sock", folder, name) >=
		    room ||
	    (size_t)snprintf(location->lock, room, "%s/%s.lock", folder, name) >= room)
		return error_set(ENAMETOOLONG,
				 "address shm:%s: the socket's path %s/%s.sock is longer than %zu "
				 "bytes; set TICKBUS_RUNTIME_DIR to a shorter folder",
				 name, folder, name, room - 1);
	return 0;
}

/* The folders to try, best first. */
static size_t folders(struct folder list[FOLDERS_MAX])
{
	const char *given = getenv("TICKBUS_RUNTIME_DIR"), *session = getenv("XDG_RUNTIME_DIR");
	const size_t room = sizeof(list[0].path);
	size_t count = 0;

	memset(list, 0, sizeof(*list) * FOLDERS_MAX);
	if (given && *given) {
		snprintf(list[0].path, room, "%s", given);
		return 1;
	}
	snprintf(list[count++].path, room, "%s", SYSTEM_FOLDER);
	if (session && *session) {
		list[count].own = true;
		if ((size_t)snprintf(list[count].path, room, "%s/tickbus", session) < room)
			count++;
	}
	list[count].own = true;
	snprintf(list[count++].path, room, "/tmp/tickbus-%u", (unsigned int)geteuid());
	return count;
}

/* In /tmp anyone may make a folder: this user must own it, and no other may write to it. */
static bool folder_is_ours(const char *path)
{
	struct stat status;

	return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
	       !(status.st_mode & (S_IWGRP | S_IWOTH));
}

static bool folder_listen(const struct folder *folder)
{
	if (folder->own) {
		if (mkdir(folder->path, 0700) < 0 && errno != EEXIST)
			return false;
		return folder_is_ours(folder->path) && access(folder->path, W_OK | X_OK) == 0;
	}
	if (geteuid() == 0 && strcmp(folder->path, SYSTEM_FOLDER) == 0)
		mkdir(folder->path, 0755);
	return access(folder->path, W_OK | X_OK) == 0;
}

/* Reports that no folder can be used. TICKBUS_RUNTIME_DIR, if set, is the last folder. */
static int listen_failed(const char *name, const struct folder *last)
{
	const int result = access(last->path, W_OK | X_OK) < 0 ? errno : EACCES;
	struct stat status;

	if (!last->own &&
	    (stat(last->path, &status) < 0 ? errno != EACCES : !S_ISDIR(status.st_mode)))
		return error_set(result,
				 "address shm:%s: TICKBUS_RUNTIME_DIR: found %s, expected a folder",
				 name, last->path);
	return error_set(
		result,
		"address shm:%s: cannot create a socket in %s: %s; set TICKBUS_RUNTIME_DIR to "
		"a folder of yours",
		name, last->path, strerror(result));
}

int shm_location_listen(const char *name, struct shm_location *location)
{
	struct folder list[FOLDERS_MAX];
	const size_t count = folders(list);
	int result = name_check(name);

	if (result < 0)
		return result;
	for (size_t i = 0; i < count; i++)
		if (folder_listen(&list[i]))
			return location_fill(location, list[i].path, name);
	return listen_failed(name, &list[count - 1]);
}

int shm_location_connect(const char *name, struct shm_location *location)
{
	struct folder list[FOLDERS_MAX];
	const size_t count = folders(list);
	int result = name_check(name);

	if (result < 0)
		return result;
	for (size_t i = 0; i < count; i++) {
		if (list[i].own && !folder_is_ours(list[i].path))
			continue;
		result = location_fill(location, list[i].path, name);
		if (result < 0)
			return result;
		if (access(location->address.sun_path, F_OK) == 0)
			return 0;
		if (errno == EACCES)
			return error_set(EACCES,
					 "address shm:%s: no permission to search %s (as user %u)",
					 name, list[i].path, (unsigned int)geteuid());
	}
	return error_set(ECONNREFUSED,
			 "address shm:%s: no publisher listens there (no %s.sock in %s%s%s%s%s)",
			 name, name, list[0].path, count > 1 ? ", " : "",
			 count > 1 ? list[1].path : "", count > 2 ? ", " : "",
			 count > 2 ? list[2].path : "");
}
