/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets: what a subscriber shows to be let into a realm of a bus.
 *
 * 32 random bytes that a publisher and its subscribers have in common. A ticket travels as it is:
 * it keeps honest programs apart, and bounds what each can reach; it is no encryption, and who can
 * watch the network can show it as well.
 *
 * Errors   0 or -errno; tb_error() has the words, which never tell anything of the ticket.
 * Threads  any. */
#ifndef TICKBUS_TICKET_H
#define TICKBUS_TICKET_H

#include <stdint.h>

#include "tickbus/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TB_TICKET_BYTES 32

/* Reads a ticket from a file: 64 hexadecimal digits, and perhaps an end of line. -EACCES the file
 * cannot be read, or others than its owner may; -ENOENT; -EINVAL something else is in it. */
TB_API int tb_ticket_load(const char *path, uint8_t ticket[TB_TICKET_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
