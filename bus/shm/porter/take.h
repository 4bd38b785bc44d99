/* SPDX-License-Identifier: Apache-2.0 */
/* The porter of a subscriber's connection: takes the frames that come with descriptors. */
#ifndef TICKBUS_BUS_SHM_PORTER_TAKE_H
#define TICKBUS_BUS_SHM_PORTER_TAKE_H

/* Returns when the subscriber ended, or when a frame came with anything but a memfd. The process
 * must end then, and may hang in its end. */
void take_run(int pair, int socket);

#endif
