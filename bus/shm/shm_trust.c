/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/shm/shm_trust.h"

#include <unistd.h>

#include "bus/shm/shm_location.h"

/* In a user namespace all users that it does not know have one number, perhaps this process's. */
bool shm_trusts(uid_t listener)
{
	return listener == 0 || (listener == geteuid() && shm_user_is_known(listener));
}
