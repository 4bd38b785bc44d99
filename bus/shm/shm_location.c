/* SPDX-License-Identifier: Apache-2.0 */
/* The location of shm:NAME. If TICKBUS_RUNTIME_DIR is set, it is NAME.sock in that folder.
 * Otherwise it is in one of /run/tickbus, $XDG_RUNTIME_DIR/tickbus and /tmp/tickbus-UID. If that
 * variable is not set, /run/user/UID takes its place where it exists. A folder of this user is used
 * only if no other user may write to it. */
#include "bus/shm/shm_location.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bus/error.h"

#define NAME_MAX_BYTES  (SHM_NAME_BYTES - 1)
#define SYSTEM_FOLDER   "/run/tickbus"
#define SESSION_FOLDERS "/run/user/" /* of all users */
#define USER_OPTION     "user="
#define OVERFLOW_ID     65534      /* without /proc */
#define USER_MAX        4294967294 /* the highest user id: the next means no user */

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

static int user_parse(const char *text, const char *value, struct shm_address *address)
{
	char *end = NULL;
	const unsigned long long user =
		strspn(value, "0123456789") <= 10 ? strtoull(value, &end, 10) : 0;

	if (*value < '0' || *value > '9' || !end || *end || user > USER_MAX)
		return error_set(EINVAL,
				 "address shm:%.100s: user: found \"%.40s\", expected a user id "
				 "from 0 to %llu",
				 text, value, (unsigned long long)USER_MAX);
	address->requires_user = true;
	address->user = (uid_t)user;
	return 0;
}

int shm_address_parse(const char *text, struct shm_address *address)
{
	const char *option = strchrnul(text, ',');
	const size_t length = (size_t)(option - text);

	*address = (struct shm_address){ .requires_user = false };
	if (length > NAME_MAX_BYTES)
		return name_check(text);
	memcpy(address->name, text, length);
	if (name_check(address->name) < 0)
		return -EINVAL;
	if (!*option)
		return 0;
	if (strncmp(option + 1, USER_OPTION, strlen(USER_OPTION)) != 0)
		return error_set(EINVAL,
				 "address shm:%.100s: found \"%.40s\", expected user=", text,
				 option + 1);
	return user_parse(text, option + 1 + strlen(USER_OPTION), address);
}

int shm_location_fill(const char *name, const struct shm_folder *in, struct shm_location *location)
{
	const size_t room = sizeof(location->address.sun_path);
	const char *folder = in->path;

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

/* The session's folder. A process without the variable, as cron, su and services start it, must
 * find the processes of the user's session. */
static bool session_folder(char path[PATH_MAX])
{
	const char *session = getenv("XDG_RUNTIME_DIR");

	if (session && *session)
		return snprintf(path, PATH_MAX, "%s", session) < PATH_MAX;
	snprintf(path, PATH_MAX, SESSION_FOLDERS "%u", (unsigned int)geteuid());
	return access(path, F_OK) == 0;
}

size_t shm_folders(struct shm_folder list[SHM_FOLDERS_MAX])
{
	const char *given = getenv("TICKBUS_RUNTIME_DIR");
	const size_t room = sizeof(list[0].path);
	char session[PATH_MAX];
	size_t count = 0;

	memset(list, 0, sizeof(*list) * SHM_FOLDERS_MAX);
	if (given && *given) {
		snprintf(list[0].path, room, "%s", given);
		list[0].given = true;
		return 1;
	}
	snprintf(list[count++].path, room, "%s", SYSTEM_FOLDER);
	if (session_folder(session)) {
		list[count].own = true;
		if ((size_t)snprintf(list[count].path, room, "%s/tickbus", session) < room)
			count++;
	}
	list[count].own = true;
	snprintf(list[count++].path, room, "/tmp/tickbus-%u", (unsigned int)geteuid());
	return count;
}

static bool file_scan(const char *path, const char *format, unsigned int numbers[3])
{
	FILE *file = fopen(path, "re");
	const int found = file ? fscanf(file, format, &numbers[0], &numbers[1], &numbers[2]) : 0;

	if (file)
		fclose(file);
	return found > 0;
}

static bool is_known(unsigned int id, const char *overflow, const char *ids)
{
	unsigned int unmapped[3] = { OVERFLOW_ID }, map[3] = { 0 };

	file_scan(overflow, "%u", unmapped);
	if (id != unmapped[0])
		return true;
	return file_scan(ids, "%u %u %u", map) && map[2] == UINT32_MAX;
}

bool shm_user_is_known(uid_t user)
{
	return is_known(user, "/proc/sys/kernel/overflowuid", "/proc/self/uid_map");
}

bool shm_group_is_known(gid_t group)
{
	return is_known(group, "/proc/sys/kernel/overflowgid", "/proc/self/gid_map");
}

/* In /tmp anyone may make a folder: this user must own it, and no other may write to it. */
bool shm_folder_is_ours(const char *path)
{
	struct stat status;

	return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
	       shm_user_is_known(status.st_uid) && !(status.st_mode & (S_IWGRP | S_IWOTH));
}

static bool folder_listen(const struct shm_folder *folder)
{
	if (folder->own) {
		if (mkdir(folder->path, 0700) < 0 && errno != EEXIST)
			return false;
		return shm_folder_is_ours(folder->path) && access(folder->path, W_OK | X_OK) == 0;
	}
	if (geteuid() == 0 && strcmp(folder->path, SYSTEM_FOLDER) == 0)
		mkdir(folder->path, 0755);
	return access(folder->path, W_OK | X_OK) == 0;
}

/* Reports that no folder can be used. TICKBUS_RUNTIME_DIR, if set, is the last folder. */
static int listen_failed(const char *name, const struct shm_folder *last)
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
	struct shm_folder list[SHM_FOLDERS_MAX];
	const size_t count = shm_folders(list);
	int result = name_check(name);

	if (result < 0)
		return result;
	for (size_t i = 0; i < count; i++)
		if (folder_listen(&list[i]))
			return shm_location_fill(name, &list[i], location);
	return listen_failed(name, &list[count - 1]);
}
