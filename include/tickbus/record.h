/* SPDX-License-Identifier: Apache-2.0 */
/* A record: one update of one instrument, as a subscriber's handler gets it.
 *
 * Errors   none: these are plain data.
 * Threads  a record belongs to the thread whose tb_poll() delivers it.
 * Memory   the library owns the record, its name and its data. They are valid inside the handler
 *          only; copy what you keep.
 * Growth   tb_record grows at its end only; its size field says how much of it is present. */
#ifndef TICKBUS_RECORD_H
#define TICKBUS_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "tickbus/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TB_PAYLOAD_MAX         4064 /* maximum payload of a record in bytes; its slot has 4,096 */
#define TB_INSTRUMENT_NAME_MAX 24   /* maximum bytes in the name of an instrument, minimum 1 */
#define TB_TOPIC_NAME_MAX      63   /* maximum bytes in the name of a topic, minimum 1 */
#define TB_PATTERN_MAX         127  /* maximum bytes in a topic pattern */

/* What a record means for its instrument's value. 0 is invalid. 8 to 127 are reserved: they cannot
 * be published; a subscriber delivers them unchanged, if a newer publisher writes them. 128 to 255
 * are for the program's own kinds. */
enum tb_kind {
	TB_KIND_UPDATE = 1, /* the new value */
	TB_KIND_CORRECTION =
		2,           /* replaces a value published before; with TB_FLAG_PAST not a value */
	TB_KIND_CANCEL = 3,  /* takes back something published before; not a value */
	TB_KIND_CLEAR = 4,   /* there is no value any more */
	TB_KIND_STATUS = 5,  /* about the instrument or the market; not a value */
	TB_KIND_HOLE = 6,    /* a record that the publisher never got; arrives as a gap event */
	TB_KIND_QUALITY = 7, /* tb_topic_quality writes it; arrives as a quality event */
	TB_KIND_USER = 128,
};

/* The quality of a topic: whether its records can be trusted. A new epoch begins good. */
enum tb_quality {
	TB_QUALITY_GOOD = 0,       /* the publisher knows of no missing or wrong record */
	TB_QUALITY_SUSPECT = 1,    /* records are missing or may be wrong */
	TB_QUALITY_REBUILDING = 2, /* the publisher is making the values right again */
};

/* Why the quality is what it is. 5 to 127 are reserved: they cannot be stated, and a subscriber may
 * get them from a newer publisher. 128 to 255 are for the program's own causes. */
enum tb_quality_cause {
	TB_QUALITY_CAUSE_NONE = 0, /* no cause is given, or it is not known */
	TB_QUALITY_NO_START = 1,   /* the source lacks the beginning of its day */
	TB_QUALITY_NO_END = 2,     /* the source lacks the end of its day */
	TB_QUALITY_DAMAGED = 3,    /* the source is damaged, and cannot be read on */
	TB_QUALITY_MISSING = 4,    /* input is missing, or could not be used */
	TB_QUALITY_USER = 128,
};

/* Flags of a record.
 *
 * LAST   the last record of an input message, in a topic that marks messages
 * PAST   a correction of an older record, which leaves the value as it is
 * IMAGE  a value from the publisher's table, delivered in an image; its sequence lies before the
 *        position. Never published */
#define TB_FLAG_LAST  0x01
#define TB_FLAG_PAST  0x02
#define TB_FLAG_IMAGE 0x80

struct tb_record {
	size_t size;         /* of this structure, as the library fills it */
	uint64_t epoch;      /* the numbering to which sequence belongs */
	uint64_t sequence;   /* 1, 2, 3 ... within the topic and epoch */
	uint64_t time_ns;    /* publication, nanoseconds since 1970 UTC, by the publisher's clock */
	uint32_t instrument; /* index in the topic's directory */
	uint16_t length;     /* bytes at data; can be fewer than the schema has */
	uint8_t kind;        /* enum tb_kind, or the program's own */
	uint8_t flags;       /* TB_FLAG_... */
	const char *name;    /* of the instrument, NUL-terminated */
	const void *data;    /* the payload, aligned to 8 bytes */
};

/* The name of a kind ("update"), or NULL if it has no name. */
TB_API const char *tb_kind_name(uint8_t kind);

#ifdef __cplusplus
}
#endif

#endif
