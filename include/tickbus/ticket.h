/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets: a subscriber proves that it knows a ticket, to enter a realm of a bus.
 *
 * A ticket is 32 random bytes that a publisher and its subscribers share. It is never sent: each
 * side proves to the other that it knows the ticket. A program that watches the network, or that
 * takes a publisher's address, learns nothing of it. Nothing is encrypted: a program between the
 * two can pass the handshake on, and read and change what follows.
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
