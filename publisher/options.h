/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the options of a publisher and copies them into its state. */
#ifndef TICKBUS_PUBLISHER_OPTIONS_H
#define TICKBUS_PUBLISHER_OPTIONS_H

#include "publisher/state.h"

/* All options but realms, users and groups. 0, or -errno with a message. */
int options_take(struct tb_publisher *, const struct tb_publisher_options *);
/* The ids of the users and groups that may connect, at most BOUND_ACCOUNTS_MAX each. 0, or -errno
 * with a message. */
int options_users(const struct tb_publisher_options *, uid_t *users);
int options_groups(const struct tb_publisher_options *, gid_t *groups);
/* Checks the name of a bus or realm. 0, or -EINVAL with a message that names the option `what`. */
int options_name_check(const char *what, const char *name);

#endif
