/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel before Linux 6.16, which lets every client send descriptors. Link the program with
 * --wrap=setsockopt. */
#ifndef TICKBUS_TESTS_SUPPORT_OLD_KERNEL_H
#define TICKBUS_TESTS_SUPPORT_OLD_KERNEL_H

#include <stdbool.h>

extern bool old_kernel;                   /* from now on there is no SO_PASSRIGHTS */
extern unsigned int old_kernel_addresses; /* sockets that had an address when it was tried */

#endif
