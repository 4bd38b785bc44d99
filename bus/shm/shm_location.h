/* SPDX-License-Identifier: Apache-2.0 */
/* The location of the socket of shm:NAME, and what a subscriber's address says beside the name. */
#ifndef TICKBUS_BUS_SHM_LOCATION_H
#define TICKBUS_BUS_SHM_LOCATION_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#define SHM_FOLDERS_MAX 3
#define SHM_NAME_BYTES  64 /* with its NUL */

/* The text after "shm:", NAME or NAME,user=UID. */
struct shm_address {
	char name[SHM_NAME_BYTES];
	bool requires_user;
	uid_t user; /* that must listen */
};

struct shm_folder {
	char path[PATH_MAX]; /* a cut path might name another folder */
	bool own;            /* of this user, made when it is needed */
	bool given;          /* by TICKBUS_RUNTIME_DIR */
};

struct shm_location {
	struct sockaddr_un address;                             /* FOLDER/NAME.sock */
	char lock[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* FOLDER/NAME.lock */
};

/* Parses an address to connect to. 0, or -EINVAL with a text. */
int shm_address_parse(const char *text, struct shm_address *);

/* The folders that a subscriber searches, in its order. */
size_t shm_folders(struct shm_folder list[SHM_FOLDERS_MAX]);

/* Whether the id names a single user or group. A user namespace shows all users and groups that it
 * does not map with the same id. */
bool shm_user_is_known(uid_t);
bool shm_group_is_known(gid_t);

/* Whether a folder belongs to this user, and no other user may write to it. */
bool shm_folder_is_ours(const char *path);

/* The location of a name in a folder: 0, or -ENAMETOOLONG with a text. */
int shm_location_fill(const char *name, const struct shm_folder *, struct shm_location *);

/* The location of a new publisher's socket: the first folder that can be used. */
int shm_location_listen(const char *name, struct shm_location *);

#endif
