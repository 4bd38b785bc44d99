/* SPDX-License-Identifier: Apache-2.0 */
/* The location of the porter's program. */
#ifndef TICKBUS_BUS_SHM_PORTER_PATH_H
#define TICKBUS_BUS_SHM_PORTER_PATH_H

#include <limits.h>

/* The folder of $TICKBUS_LIBEXEC_DIR; else the folder of the file that has this code, if the
 * program is there and no other user can have put it there; else where it was installed. */
void shm_porter_path(char path[PATH_MAX]);

#endif
