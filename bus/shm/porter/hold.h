/* SPDX-License-Identifier: Apache-2.0 */
/* The porter of a publisher's listening socket: shares it, and each connection. */
#ifndef TICKBUS_BUS_SHM_PORTER_HOLD_H
#define TICKBUS_BUS_SHM_PORTER_HOLD_H

/* Returns when the publisher ended. The process must end then, and may hang in its end. */
void hold_run(int pair, int listening);

#endif
