/* SPDX-License-Identifier: Apache-2.0 */
/* The location of the porter's program. */
#ifndef TICKBUS_BUS_SHM_PORTER_PATH_H
#define TICKBUS_BUS_SHM_PORTER_PATH_H

#include <limits.h>

/* It is in the folder of $TICKBUS_LIBEXEC_DIR. Without that setting it is beside the file that has
 * this code, if no other user can have put it there. Else it is where it was installed. */
void shm_porter_path(char path[PATH_MAX]);

#endif
