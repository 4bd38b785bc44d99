/* SPDX-License-Identifier: Apache-2.0 */
/* The users and groups of this machine, by name. A group may have any number of members.
 *
 * Threads  any. */
#ifndef TICKBUS_BUS_ACCOUNT_H
#define TICKBUS_BUS_ACCOUNT_H

#include <sys/types.h>

/* 0, or an errno value; ENOENT: no account has this name. */
int account_user(const char *name, uid_t *user);
int account_group(const char *name, gid_t *group);

#endif
