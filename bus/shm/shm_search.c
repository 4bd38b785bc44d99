/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/shm/shm_search.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bus/error.h"

#define WHAT_BYTES 200
#define LIST_BYTES 1200

/* What a folder has, for the text. */
struct finding {
	int code; /* 0: a bus; ENOENT: no socket; EPERM: it cannot be searched; ECONNREFUSED: no
		   * process listens; EACCES: not for this user; or another errno value */
	char what[WHAT_BYTES];
};

static void finding_set(struct finding *finding, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void finding_set(struct finding *finding, int code, const char *format, ...)
{
	va_list args;

	finding->code = code;
	va_start(args, format);
	vsnprintf(finding->what, sizeof(finding->what), format, args);
	va_end(args);
}

static bool others_may_write(const struct stat *folder)
{
	return folder->st_mode & (S_IWGRP | S_IWOTH);
}

/* Whether the folder counts at all. */
static bool folder_check(const struct shm_folder *folder, struct stat *status,
			 struct finding *finding)
{
	if (stat(folder->path, status) < 0) {
		if (errno == EACCES)
			finding_set(finding, EPERM, "user %u has no permission to enter it",
				    (unsigned int)geteuid());
		else
			finding_set(finding, ENOENT, "the folder does not exist");
		return false;
	}
	if (!S_ISDIR(status->st_mode)) {
		finding_set(finding, folder->given ? ENOTDIR : ENOENT, "it is no folder");
		return false;
	}
	if (folder->own && !shm_folder_is_ours(folder->path)) {
		finding_set(finding, ENOENT, "it does not belong to user %u alone",
			    (unsigned int)geteuid());
		return false;
	}
	return true;
}

/* Whether the file may be a publisher's socket. */
static bool socket_check(const char *name, const char *path, struct stat *status,
			 struct finding *finding)
{
	const int code = stat(path, status) < 0 ? errno : 0;

	if (code == 0 && S_ISSOCK(status->st_mode))
		return true;
	if (code == EACCES)
		finding_set(finding, EPERM, "user %u has no permission to enter it",
			    (unsigned int)geteuid());
	else if (lstat(path, status) < 0)
		finding_set(finding, ENOENT, "no %s.sock", name);
	else
		finding_set(finding, ECONNREFUSED, "%s.sock is no socket", name);
	return false;
}

static void connect_failed(const char *name, int code, const struct stat *socket,
			   struct finding *finding)
{
	switch (code) {
	case ENOENT:
		finding_set(finding, ENOENT, "no %s.sock", name);
		break;
	case ECONNREFUSED:
		finding_set(finding, ECONNREFUSED, "no process listens at %s.sock", name);
		break;
	case EPROTOTYPE:
		finding_set(finding, ECONNREFUSED, "%s.sock belongs to another program", name);
		break;
	case EACCES:
		finding_set(finding, EACCES,
			    "user %u has no permission to connect to %s.sock of user %u",
			    (unsigned int)geteuid(), name, (unsigned int)socket->st_uid);
		break;
	default:
		finding_set(finding, code, "%s.sock: %s", name, strerror(code));
	}
}

/* Y2, once the listener is known. */
static bool listener_check(const struct shm_address *address, const struct stat *folder, uid_t user,
			   struct finding *finding)
{
	if (address->requires_user && user != address->user)
		finding_set(finding, EACCES, "user %u listens at %s.sock, expected user %u",
			    (unsigned int)user, address->name, (unsigned int)address->user);
	else if (!address->requires_user && folder->st_uid != 0 && folder->st_uid != geteuid() &&
		 folder->st_uid != user)
		finding_set(finding, EACCES,
			    "user %u owns the folder and user %u listens at %s.sock, expected the "
			    "same user, or user= in the address",
			    (unsigned int)folder->st_uid, (unsigned int)user, address->name);
	else
		return true;
	return false;
}

static int socket_connect(const struct sockaddr_un *address, uid_t *user)
{
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct ucred credentials;
	socklen_t length = sizeof(credentials);
	int code;

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 &&
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0) {
		*user = credentials.uid;
		return fd;
	}
	code = errno;
	close(fd);
	return -code;
}

static void folder_try(const struct shm_address *address, const struct shm_folder *folder,
		       struct shm_found *found, struct finding *finding)
{
	struct stat there, socket;

	found->fd = -1;
	if (shm_location_fill(address->name, folder, &found->location) < 0) {
		finding_set(finding, ENAMETOOLONG, "its path is too long");
		return;
	}
	if (!folder_check(folder, &there, finding) ||
	    !socket_check(address->name, found->location.address.sun_path, &socket, finding))
		return;
	if (!address->requires_user && others_may_write(&there)) { /* Y2 */
		finding_set(finding, EACCES,
			    "found mode %04o, expected a folder that only its owner may write to, "
			    "or user= in the address",
			    (unsigned int)there.st_mode & 07777);
		return;
	}
	found->fd = socket_connect(&found->location.address, &found->user);
	if (found->fd < 0) {
		connect_failed(address->name, -found->fd, &socket, finding);
	} else if (!listener_check(address, &there, found->user, finding)) {
		close(found->fd);
		found->fd = -1;
	} else {
		finding_set(finding, 0, "a bus of user %u", (unsigned int)found->user);
	}
}

static void list_add(char list[LIST_BYTES], const struct shm_folder *folder,
		     const struct finding *finding)
{
	const size_t used = strlen(list);

	snprintf(list + used, LIST_BYTES - used, "%s%.200s: %s", used ? "; " : "", folder->path,
		 finding->what);
}

static int search_failed(const struct shm_address *address, int code, const char *list)
{
	if (code == ECONNREFUSED)
		return error_set(code, "address shm:%s: no publisher listens there (%s)",
				 address->name, list);
	if (code == EACCES)
		return error_set(code, "address shm:%s: no bus there for user %u (%s)",
				 address->name, (unsigned int)geteuid(), list);
	return error_set(code, "address shm:%s: cannot connect (%s)", address->name, list);
}

int shm_search(const struct shm_address *address, struct shm_found *found)
{
	struct shm_folder folders[SHM_FOLDERS_MAX];
	const size_t count = shm_folders(folders);
	char list[LIST_BYTES] = "";
	int code = ECONNREFUSED;

	for (size_t i = 0; i < count; i++) {
		struct finding finding;

		folder_try(address, &folders[i], found, &finding);
		list_add(list, &folders[i], &finding);
		switch (finding.code) {
		case 0:
			return 0;
		case ENOENT:
		case ECONNREFUSED:
			break;
		case EPERM:
		case EACCES:
			code = EACCES;
			break;
		case ENAMETOOLONG:
			return shm_location_fill(address->name, &folders[i], &found->location);
		case ENOTDIR:
			return error_set(ENOTDIR,
					 "address shm:%s: TICKBUS_RUNTIME_DIR: found %s, expected "
					 "a folder",
					 address->name, folders[i].path);
		default: /* a publisher listens, but this user or the publisher lacks something */
			return search_failed(address, finding.code, list);
		}
	}
	return search_failed(address, code, list);
}

/* A bus that subscribers of this user would take instead. */
static int bus_before(const struct shm_address *address, const char *mine,
		      const struct shm_folder *folder, const struct finding *finding)
{
	return error_set(EADDRINUSE,
			 "address shm:%s: subscribers of user %u look into %s before %s: found %s, "
			 "expected no bus there; choose another name",
			 address->name, (unsigned int)geteuid(), folder->path, mine, finding->what);
}

int shm_search_before(const char *name, const struct shm_location *mine)
{
	struct shm_folder folders[SHM_FOLDERS_MAX];
	const size_t count = shm_folders(folders);
	const char *path = mine->address.sun_path;
	struct shm_address address = { .requires_user = false };
	char list[LIST_BYTES] = "";

	snprintf(address.name, sizeof(address.name), "%s", name);
	for (size_t i = 0; i < count; i++) {
		struct shm_location there;
		struct shm_found found;
		struct finding finding;

		if (shm_location_fill(name, &folders[i], &there) < 0)
			continue;
		if (strcmp(there.address.sun_path, path) == 0)
			break;
		folder_try(&address, &folders[i], &found, &finding);
		if (found.fd >= 0)
			close(found.fd);
		if (finding.code == 0 || finding.code == EAGAIN)
			return bus_before(&address, path, &folders[i], &finding);
		if (finding.code == ECONNREFUSED || finding.code == EACCES)
			list_add(list, &folders[i], &finding);
	}
	if (!*list)
		return 0;
	error_set(0,
		  "address shm:%s: subscribers find this name in another folder first, and go on "
		  "to %s (%s)",
		  name, path, list);
	return 1;
}
