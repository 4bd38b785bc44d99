/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/shm/shm_trust.h"

#include <unistd.h>

#include "bus/shm/shm_location.h"

/* In a user namespace all users that it does not know have one number, perhaps this process's. */
bool shm_trusts(uid_t peer)
{
	uid_t real, effective, saved;

	if (peer == 0)
		return true;
	return getresuid(&real, &effective, &saved) == 0 && peer == real && peer == effective &&
	       peer == saved && shm_user_is_known(peer);
}
