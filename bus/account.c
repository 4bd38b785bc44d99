/* SPDX-License-Identifier: Apache-2.0 */
/* The system's list says more of an account than its number, a group with all its members. So the
 * room for it grows. */
#include "bus/account.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>

#define ROOM_FIRST 16384
#define ROOM_MAX   (64u << 20) /* a million members */

/* Asks with this room: 0, or an errno value, ERANGE for more room. *found: it has an answer. */
static int ask_user(const char *name, char *room, size_t bytes, id_t *id, bool *found)
{
	struct passwd entry, *user = NULL;
	const int code = getpwnam_r(name, &entry, room, bytes, &user);

	*found = user;
	if (user)
		*id = user->pw_uid;
	return code;
}

static int ask_group(const char *name, char *room, size_t bytes, id_t *id, bool *found)
{
	struct group entry, *group = NULL;
	const int code = getgrnam_r(name, &entry, room, bytes, &group);

	*found = group;
	if (group)
		*id = group->gr_gid;
	return code;
}

static int find(const char *name, id_t *id,
		int (*ask)(const char *name, char *room, size_t bytes, id_t *id, bool *found))
{
	bool found = false;
	int code = ERANGE;

	for (size_t bytes = ROOM_FIRST; code == ERANGE && bytes <= ROOM_MAX; bytes *= 4) {
		char *room = malloc(bytes);

		code = room ? ask(name, room, bytes, id, &found) : ENOMEM;
		free(room);
	}
	return found ? 0 : code ? code : ENOENT;
}

int account_user(const char *name, uid_t *user)
{
	return find(name, user, ask_user);
}

int account_group(const char *name, gid_t *group)
{
	return find(name, group, ask_group);
}
