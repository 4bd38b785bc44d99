/* SPDX-License-Identifier: Apache-2.0 */
/* Users that another process need not be guarded against: a subscriber receives their descriptors
 * itself (Z7), a publisher lets them share an open file (H6). */
#ifndef TICKBUS_BUS_SHM_TRUST_H
#define TICKBUS_BUS_SHM_TRUST_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether this is root, or the one user that this process is: by its real, effective and saved
 * number. It is a decision: these users can end this process by a signal, unless they are in
 * another container, or root without CAP_KILL. */
bool shm_trusts(uid_t peer);

#endif
