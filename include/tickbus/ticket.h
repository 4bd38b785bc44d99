/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets: a subscriber shows a ticket to enter a realm of a bus.
 *
 * A ticket is 32 random bytes that a publisher and its subscribers share. It is sent as it is: it
 * keeps honest programs apart and limits what each can reach, but it is no encryption. A program
 * that can watch the network can copy it.
 *
 * Errors   0 or -errno; tb_error() has the message, which never contains a byte of the ticket.
 * Threads  any thread. */
#ifndef TICKBUS_TICKET_H
#define TICKBUS_TICKET_H

#include <stdint.h>

#include "tickbus/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TB_TICKET_BYTES 32

/* Reads a ticket from a file of 64 hexadecimal digits; an end of line may follow them.
 *
 * -EACCES: the file cannot be read, or users other than its owner have access to it. -ENOENT: there
 * is no file. -EINVAL: the file has other contents. */
TB_API int tb_ticket_load(const char *path, uint8_t ticket[TB_TICKET_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
