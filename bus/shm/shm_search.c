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
#include "tickbus/error.h"

#define WHAT_BYTES 200

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
	else if (!address->requires_user && !shm_user_is_known(folder->st_uid))
		finding_set(finding, EACCES,
			    "user %u owns the folder, which this user namespace does not know; "
			    "expected user= in the address",
			    (unsigned int)folder->st_uid);
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

/* 0 or an errno value. */
static int socket_connect(int socket, const struct sockaddr_un *address, uid_t *user)
{
	struct ucred credentials;
	socklen_t length = sizeof(credentials);

	if (connect(socket, (const struct sockaddr *)address, sizeof(*address)) < 0 ||
	    getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0)
		return errno;
	*user = credentials.uid;
	return 0;
}

static void origin_fill(struct shm_origin *origin, const struct shm_location *location)
{
	*origin = (struct shm_origin){ .user = (uid_t)-1 };
	memcpy(origin->path, location->address.sun_path, sizeof(origin->path));
}

/* Porters of this path hang (Z2). Whether the process that listens now may have another, since it
 * is another user's. A socket that takes nothing finds out which user listens: a porter would have
 * to close what it takes. */
static bool crowd_pass(const struct shm_address *address, const struct stat *folder,
		       const struct stat *file, const struct shm_location *location,
		       struct finding *finding)
{
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct shm_origin origin;
	int code;

	origin_fill(&origin, location);
	shutdown(fd, SHUT_RD);
	code = fd < 0 ? errno : socket_connect(fd, &location->address, &origin.user);
	if (fd >= 0)
		close(fd);
	if (code != 0) {
		connect_failed(address->name, code, file, finding);
		return false;
	}
	if (!listener_check(address, folder, origin.user, finding))
		return false;
	if (shm_porter_room(&origin) == 0)
		return true;
	finding_set(finding, EAGAIN, "%s", tb_error());
	return false;
}

/* Returns whether the socket is connected, also to a process that the address refuses. */
static bool folder_try(const struct shm_address *address, const struct shm_folder *folder,
		       int socket, struct shm_origin *origin, struct finding *finding)
{
	struct shm_location location;
	struct stat there, file;
	int code;

	if (shm_location_fill(address->name, folder, &location) < 0) {
		finding_set(finding, ENAMETOOLONG, "its path is too long");
		return false;
	}
	if (!folder_check(folder, &there, finding) ||
	    !socket_check(address->name, location.address.sun_path, &file, finding))
		return false;
	if (!address->requires_user && others_may_write(&there)) { /* Y2 */
		finding_set(finding, EACCES,
			    "found mode %04o, expected a folder that only its owner may write to, "
			    "or user= in the address",
			    (unsigned int)there.st_mode & 07777);
		return false;
	}
	origin_fill(origin, &location);
	if (shm_porter_crowded(origin->path) &&
	    !crowd_pass(address, &there, &file, &location, finding))
		return false;
	code = socket_connect(socket, &location.address, &origin->user);
	if (code != 0)
		connect_failed(address->name, code, &file, finding);
	else if (listener_check(address, &there, origin->user, finding))
		finding_set(finding, 0, "a bus of user %u", (unsigned int)origin->user);
	return code == 0;
}

static void list_add(char list[SHM_SEARCH_LIST_BYTES], const struct shm_folder *folder,
		     const struct finding *finding)
{
	const size_t used = strlen(list);

	snprintf(list + used, SHM_SEARCH_LIST_BYTES - used, "%s%.200s: %s", used ? "; " : "",
		 folder->path, finding->what);
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

void shm_search_begin(struct shm_search *search, const struct shm_address *address)
{
	memset(search, 0, sizeof(*search));
	search->address = *address;
	search->count = shm_folders(search->folders);
	search->code = ECONNREFUSED;
}

/* Takes what a folder has into account. True: the search goes on. */
static bool finding_take(struct shm_search *search, const struct shm_folder *folder,
			 const struct finding *finding)
{
	list_add(search->list, folder, finding);
	if (finding->code == EPERM || finding->code == EACCES)
		search->code = EACCES;
	else if (finding->code != ENOENT && finding->code != ECONNREFUSED)
		search->code = finding->code; /* this user or the publisher lacks something */
	return search->code == ECONNREFUSED || search->code == EACCES;
}

int shm_search_connect(struct shm_search *search, int socket, struct shm_origin *origin)
{
	while (search->next < search->count) {
		const struct shm_folder *folder = &search->folders[search->next++];
		struct shm_location location;
		struct finding finding;
		const bool connected =
			folder_try(&search->address, folder, socket, origin, &finding);

		if (finding.code == 0)
			return 0;
		if (finding.code == ENAMETOOLONG)
			return shm_location_fill(search->address.name, folder, &location);
		if (finding.code == ENOTDIR)
			return error_set(ENOTDIR,
					 "address shm:%s: TICKBUS_RUNTIME_DIR: found %s, expected "
					 "a folder",
					 search->address.name, folder->path);
		if (!finding_take(search, folder, &finding))
			break;
		if (connected)
			return 1;
	}
	return search_failed(&search->address, search->code, search->list);
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

/* What a folder has for this user. Nothing that the listener sends is received, so closing the
 * socket never waits for what it sent. */
static void folder_probe(const struct shm_address *address, const struct shm_folder *folder,
			 struct finding *finding)
{
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct shm_origin origin;

	if (fd < 0) {
		finding_set(finding, errno, "%s", strerror(errno));
		return;
	}
	shutdown(fd, SHUT_RD);
	folder_try(address, folder, fd, &origin, finding);
	close(fd);
}

int shm_search_before(const char *name, const struct shm_location *mine)
{
	struct shm_folder folders[SHM_FOLDERS_MAX];
	const size_t count = shm_folders(folders);
	const char *path = mine->address.sun_path;
	struct shm_address address = { .requires_user = false };
	char list[SHM_SEARCH_LIST_BYTES] = "";

	snprintf(address.name, sizeof(address.name), "%s", name);
	for (size_t i = 0; i < count; i++) {
		struct shm_location there;
		struct finding finding;

		if (shm_location_fill(name, &folders[i], &there) < 0)
			continue;
		if (strcmp(there.address.sun_path, path) == 0)
			break;
		folder_probe(&address, &folders[i], &finding);
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
