/* SPDX-License-Identifier: Apache-2.0 */
/* Recognises what a file is that is no BinaryFILE of ITCH 5.0: a capture, an archive, a text, or
 * messages in another framing. A file is refused if its first bytes show what it is, or if its
 * first message is longer than any message of an exchange. Others are read, since a feed judges
 * them by their messages. */
#ifndef TICKBUS_FEEDS_FOREIGN_H
#define TICKBUS_FEEDS_FOREIGN_H

#include <stddef.h>
#include <stdint.h>

#define FOREIGN_HEAD_BYTES 65536 /* more is not looked at */

/* The first bytes of a stream, uncompressed. 0, or -EBADMSG with what the stream looks like or its
 * first message's length, what was expected, and what to do. */
int foreign_check(const uint8_t *head, size_t size);

#endif
