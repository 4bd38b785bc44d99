/* SPDX-License-Identifier: Apache-2.0 */
/* Whose descriptors a subscriber receives itself (Z7). */
#ifndef TICKBUS_BUS_SHM_TRUST_H
#define TICKBUS_BUS_SHM_TRUST_H

#include <stdbool.h>
#include <sys/types.h>

/* Root and this process's own user: they could stop this process by a signal anyway. */
bool shm_trusts(uid_t listener);

#endif
