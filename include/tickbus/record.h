/* SPDX-License-Identifier: Apache-2.0 */
/* A record: one update of one instrument, as a subscriber's handler sees it.
 *
 * Errors   none: these are plain data.
 * Threads  a record belongs to the thread whose tb_poll() delivers it.
 * Memory   the record, its name and its data are the library's and valid inside the handler only;
 *          copy what must outlive it.
 * Growth   tb_record only ever grows at its end; its size field tells how much of it there is. */
#ifndef TICKBUS_RECORD_H
#define TICKBUS_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "tickbus/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TB_PAYLOAD_MAX         4064 /* bytes of payload in one record, with slots of 4,096 bytes */
#define TB_INSTRUMENT_NAME_MAX 24   /* bytes in an instrument's name, at least 1 */
#define TB_TOPIC_NAME_MAX      63   /* bytes in a topic's name, at least 1 */
#define TB_PATTERN_MAX         127  /* bytes in a topic pattern */

/* What a record means for its instrument's value. 0 is invalid; 7 to 127 are not given a meaning
 * yet: none can be published, and a subscriber of a newer publisher is given them as they are; 128
 * and up are the users' own. */
enum tb_kind {
	TB_KIND_UPDATE = 1,     /* the new value */
	TB_KIND_CORRECTION = 2, /* replaces a value published before */
	TB_KIND_CANCEL = 3,     /* takes back something published before; not a value */
	TB_KIND_CLEAR = 4,      /* there is no value any more */
	TB_KIND_STATUS = 5,     /* about the instrument or the market; not a value */
	TB_KIND_HOLE =
		6, /* the publisher itself never got this one; told as a gap, not delivered */
	TB_KIND_USER = 128,
};

/* Flags of a record. */
#define TB_FLAG_LAST 0x01 /* the last record of one atomic event */

struct tb_record {
	size_t size;         /* of this structure, as the library fills it */
	uint64_t epoch;      /* identity of the numbering that sequence belongs to */
	uint64_t sequence;   /* 1, 2, 3 ... within the topic and epoch */
	uint64_t time_ns;    /* when published, nanoseconds since 1970 UTC, the publisher's clock */
	uint32_t instrument; /* index in the topic's directory */
	uint16_t length;     /* bytes at data */
	uint8_t kind;        /* enum tb_kind, or a user's own */
	uint8_t flags;       /* TB_FLAG_... */
	const char *name;    /* the instrument's name, NUL-terminated */
	const void *data;    /* the payload, aligned to 8 bytes */
};

/* The word for a kind ("update"), or NULL for one that has none. */
TB_API const char *tb_kind_name(uint8_t kind);

#ifdef __cplusplus
}
#endif

#endif
