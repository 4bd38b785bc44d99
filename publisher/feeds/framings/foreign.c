/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/feeds/framings/foreign.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "bus/error.h"
#include "publisher/feeds/itch/itch.h"

#define ENOUGH      2 /* frames in a row from the first byte that show a framing */
#define TEXT_BYTES  512
#define TAR_AT      257
#define MOLD_BYTES  20 /* session of 10 bytes, sequence of 8, count of 2 */
#define MOLD_NAME   10
#define MOLD_END    0xffff /* the count that ends a session */
#define FIRST_MAX   255    /* bytes of the first message; an exchange's longest has 50 */
#define ITCH41_LESS 6      /* bytes: no locate, no tracking number, a shorter time */
#define ITCH41_R    20
#define ITCH41_T    5

static size_t big(const uint8_t *bytes)
{
	return (size_t)bytes[0] << 8 | bytes[1];
}

/* -- messages in a framing ----------------------------------------------------------------------
 */

static bool is_message(const uint8_t *bytes, size_t length)
{
	struct itch_message message;

	return itch_decode(bytes, length, &message) == 0;
}

static bool is_message41(const uint8_t *bytes, size_t length)
{
	const uint8_t known = length ? itch_lengths[bytes[0]] : 0;

	if (length == 0)
		return false;
	if (bytes[0] == 'T')
		return length == ITCH41_T;
	return bytes[0] == 'R' ? length == ITCH41_R : known && length + ITCH41_LESS == known;
}

/* True if the first frames are those of a framing. `frame` gives the bytes of a whole frame at the
 * beginning of what is left; 0: no frame. */
static bool fits(const uint8_t *head, size_t size, size_t (*frame)(const uint8_t *, size_t left))
{
	size_t at = 0, length;
	unsigned int count = 0;

	for (; count < ENOUGH && at < size; count++, at += length) {
		length = frame(head + at, size - at);
		if (!length)
			return false;
	}
	return count > 0;
}

static size_t frame_own(const uint8_t *bytes, size_t left)
{
	const size_t length = left > 2 ? big(bytes) : 0;

	return length && length + 2 <= left && is_message(bytes + 2, length) ? length + 2 : 0;
}

static size_t frame_itch41(const uint8_t *bytes, size_t left)
{
	const size_t length = left > 2 ? big(bytes) : 0;

	return length && length + 2 <= left && is_message41(bytes + 2, length) ? length + 2 : 0;
}

static size_t frame_little(const uint8_t *bytes, size_t left)
{
	const size_t length = left > 2 ? (size_t)bytes[1] << 8 | bytes[0] : 0;

	return length && length + 2 <= left && is_message(bytes + 2, length) ? length + 2 : 0;
}

static size_t frame_missing(const uint8_t *bytes, size_t left)
{
	const size_t length = itch_lengths[bytes[0]];

	return length && length <= left && is_message(bytes, length) ? length : 0;
}

static size_t frame_zero(const uint8_t *bytes, size_t left)
{
	const size_t length = left > 2 && !big(bytes) ? frame_missing(bytes + 2, left - 2) : 0;

	return length ? length + 2 : 0;
}

/* A packet of a server or client: length, type, payload. */
static size_t frame_soup(const uint8_t *bytes, size_t left)
{
	const size_t length = left > 2 ? big(bytes) : 0;
	bool good = false;

	if (!length || length + 2 > left)
		return 0;
	switch (bytes[2]) {
	case 'S':
		good = is_message(bytes + 3, length - 1) || is_message41(bytes + 3, length - 1);
		break;
	case 'H':
	case 'R':
	case 'Z':
	case 'O':
		good = length == 1;
		break;
	case 'A':
		good = length == 31;
		break;
	case 'L':
		good = length == 47;
		break;
	}
	return good ? length + 2 : 0;
}

static size_t frame_mold(const uint8_t *bytes, size_t left)
{
	size_t at = MOLD_BYTES, count;

	if (left < MOLD_BYTES)
		return 0;
	for (size_t i = 0; i < MOLD_NAME; i++)
		if (bytes[i] < ' ' || bytes[i] > '~')
			return 0;
	count = big(bytes + MOLD_BYTES - 2);
	for (; count > 0 && count != MOLD_END; count--) {
		const size_t length = left - at > 2 ? frame_own(bytes + at, left - at) : 0;

		if (!length)
			return 0;
		at += length;
	}
	return at;
}

/* A packet behind its length. */
static size_t frame_mold_packet(const uint8_t *bytes, size_t left)
{
	const size_t length = left > 2 ? big(bytes) : 0;

	return length && length + 2 <= left && frame_mold(bytes + 2, length) == length ? length + 2
										       : 0;
}

#define FRAMING(name)                                                                              \
	static bool is_##name(const uint8_t *head, size_t size)                                    \
	{                                                                                          \
		return fits(head, size, frame_##name);                                             \
	}
FRAMING(itch41)
FRAMING(little)
FRAMING(missing)
FRAMING(zero)
FRAMING(soup)

static bool is_mold(const uint8_t *head, size_t size)
{
	return fits(head, size, frame_mold) || fits(head, size, frame_mold_packet);
}

static bool is_zeros(const uint8_t *head, size_t size)
{
	return size > 2 && !head[0] && !memcmp(head, head + 1, size - 1);
}

/* -- containers and texts -----------------------------------------------------------------------
 */

static bool begins(const uint8_t *head, size_t size, const char *magic, size_t length)
{
	return size >= length && !memcmp(head, magic, length);
}

static bool is_tar(const uint8_t *head, size_t size)
{
	return size > TAR_AT && head[0] && begins(head + TAR_AT, size - TAR_AT, "ustar", 5);
}

static bool is_bzip2(const uint8_t *head, size_t size)
{
	return begins(head, size, "BZh", 3) && size > 10 &&
	       (begins(head + 4, size - 4, "1AY&SY", 6) ||
		begins(head + 4, size - 4, "\x17\x72\x45\x38\x50\x90", 6));
}

/* It begins with a byte order mark, of either order (RFC 2781). */
static bool is_utf16(const uint8_t *head, size_t size)
{
	return begins(head, size, "\xff\xfe", 2) || begins(head, size, "\xfe\xff", 2);
}

static bool is_dbn(const uint8_t *head, size_t size)
{
	return begins(head, size, "DBN", 3) && size > 3 && head[3] < ' ';
}

/* The first character of a text behind a byte order mark and spaces; NULL: no text. */
static const char *text_begin(const uint8_t *head, size_t size)
{
	size_t at = begins(head, size, "\xef\xbb\xbf", 3) ? 3 : 0;
	const size_t end = size < TEXT_BYTES ? size : TEXT_BYTES;

	for (size_t i = at; i < end; i++)
		if (head[i] == 0x7f || (head[i] < ' ' && !strchr("\t\r\n\f", head[i])) || !head[i])
			return NULL;
	while (at < end && isspace(head[at]))
		at++;
	return at < end ? (const char *)head + at : NULL;
}

static bool is_html(const uint8_t *head, size_t size)
{
	static const char *const tags[] = { "<!doctype", "<html", "<head", "<body", "<?xml" };
	const char *text = text_begin(head, size);
	const size_t left = text ? size - (size_t)(text - (const char *)head) : 0;

	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++)
		if (left >= strlen(tags[i]) && !strncasecmp(text, tags[i], strlen(tags[i])))
			return true;
	return false;
}

static bool is_json(const uint8_t *head, size_t size)
{
	const char *text = text_begin(head, size);

	return text && (*text == '{' || *text == '[');
}

/* A line with columns. */
static bool is_csv(const uint8_t *head, size_t size)
{
	const char *text = text_begin(head, size), *end = (const char *)head + size;

	for (; text && text < end && *text != '\n'; text++)
		if (*text == ',' || *text == ';' || *text == '\t')
			return true;
	return false;
}

static bool is_text(const uint8_t *head, size_t size)
{
	return text_begin(head, size);
}

/* -- the table ----------------------------------------------------------------------------------
 */

#define UNPACK(program) "decompress it with " program ", or compress it with gzip or zstd"
#define UNWRAP          "extract the file of messages from it"
#define CAPTURE         "extract the messages of its packets to a BinaryFILE"
#define FETCH           "get the file itself"
#define REFRAME         "write each message behind its length, a big-endian number of 2 bytes"
#define CONVERT         "convert its messages to ITCH 5.0"

#define EXPECTED "a BinaryFILE of ITCH 5.0, plain or compressed with gzip or zstd"

static const struct {
	const char *what;
	const char *magic; /* that the head begins with, or NULL */
	size_t magic_bytes;
	bool (*is)(const uint8_t *head, size_t size); /* without a magic */
	const char *remedy;
} foreigns[] = {
#define MAGIC(what, magic, remedy)                                                                 \
	{                                                                                          \
		what, magic, sizeof(magic) - 1, NULL, remedy                                       \
	}
#define LOOKS(what, is, remedy)                                                                    \
	{                                                                                          \
		what, NULL, 0, is, remedy                                                          \
	}
	MAGIC("a capture (pcap, microseconds)", "\xd4\xc3\xb2\xa1", CAPTURE),
	MAGIC("a capture (pcap, microseconds, big-endian)", "\xa1\xb2\xc3\xd4", CAPTURE),
	MAGIC("a capture (pcap, nanoseconds)", "\x4d\x3c\xb2\xa1", CAPTURE),
	MAGIC("a capture (pcap, nanoseconds, big-endian)", "\xa1\xb2\x3c\x4d", CAPTURE),
	MAGIC("a capture (pcapng)", "\x0a\x0d\x0d\x0a", CAPTURE),
	MAGIC("xz data",
	      "\xfd"
	      "7zXZ\0",
	      UNPACK("xz -d")),
	LOOKS("bzip2 data", is_bzip2, UNPACK("bzip2 -d")),
	MAGIC("lz4 data", "\x04\x22\x4d\x18", UNPACK("lz4 -d")),
	MAGIC("gzip data inside compressed data", "\x1f\x8b",
	      "decompress it once with gzip -d or zstd -d"),
	MAGIC("zstd data inside compressed data", "\x28\xb5\x2f\xfd",
	      "decompress it once with gzip -d or zstd -d"),
	MAGIC("a zip archive", "PK\3\4", UNWRAP),
	MAGIC("a zip archive without files", "PK\5\6", FETCH),
	MAGIC("a 7z archive", "7z\xbc\xaf\x27\x1c", UNWRAP),
	LOOKS("a tar archive", is_tar, UNWRAP),
	LOOKS("DBN (Databento's encoding)", is_dbn, CONVERT),
	/* These magics are from sqlite.org/fileformat2.html, from "File Format" of Apache Parquet,
	 * and from "IPC File Format" of Apache Arrow. PARE begins a Parquet file whose footer is
	 * encrypted. */
	MAGIC("an SQLite database", "SQLite format 3\0", CONVERT),
	MAGIC("a Parquet file", "PAR1", CONVERT),
	MAGIC("a Parquet file", "PARE", CONVERT),
	MAGIC("an Arrow file", "ARROW1", CONVERT),
	MAGIC("a program (ELF)", "\177ELF", FETCH), /* from elf(5) */
	MAGIC("a git-lfs pointer", "version https://git-lfs",
	      "get the file itself with git lfs pull"),
	LOOKS("ITCH 4.1", is_itch41, CONVERT),
	LOOKS("MoldUDP64 packets", is_mold, CAPTURE),
	LOOKS("SoupBinTCP packets", is_soup, CAPTURE),
	LOOKS("ITCH 5.0 with little-endian lengths", is_little, REFRAME),
	LOOKS("ITCH 5.0 with lengths that are all 0", is_zero, REFRAME),
	LOOKS("ITCH 5.0 without lengths", is_missing, REFRAME),
	LOOKS("zeros without a message", is_zeros, FETCH),
	LOOKS("UTF-16 text", is_utf16, FETCH),
	LOOKS("HTML or XML", is_html, FETCH),
	LOOKS("JSON", is_json, FETCH),
	LOOKS("CSV", is_csv, FETCH),
	LOOKS("text", is_text, FETCH),
#undef MAGIC
#undef LOOKS
};

/* The length of the first message shows that a file is no BinaryFILE. A BinaryFILE begins with a
 * zero byte, and most other files do not, even random bytes. Later messages may have any length. */
static int check_first(const uint8_t *head, size_t size)
{
	const size_t length = size >= 2 ? big(head) : 0;

	if (length <= FIRST_MAX)
		return 0;
	return error_set(EBADMSG,
			 "found %zu bytes as the length of the first message, expected at most %d "
			 "in " EXPECTED "; is it a file of another format?",
			 length, FIRST_MAX);
}

/* No entry fits a file that begins with a valid message. Each magic begins with another byte than
 * its length, and each framing has another length there. */
int foreign_check(const uint8_t *head, size_t size)
{
	for (size_t i = 0; i < sizeof(foreigns) / sizeof(foreigns[0]); i++) {
		const char *magic = foreigns[i].magic;

		if (magic ? begins(head, size, magic, foreigns[i].magic_bytes)
			  : foreigns[i].is(head, size))
			return error_set(EBADMSG, "looks like %s, expected " EXPECTED "; %s",
					 foreigns[i].what, foreigns[i].remedy);
	}
	return check_first(head, size);
}
