/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/verbs/verbs_private_data.h"

#include <errno.h>
#include <string.h>

#define CODE_MAX 4095

static void data_copy(const uint8_t *data, size_t bytes, struct verbs_private_data *out)
{
	memset(out, 0, sizeof(*out));
	memcpy(out, data, bytes < sizeof(*out) ? bytes : sizeof(*out));
}

int verbs_private_data_welcome(const uint8_t *data, size_t bytes, struct verbs_private_data *out)
{
	data_copy(data, bytes, out);
	return out->mark == VERBS_MARK && out->number <= FABRIC_WELCOME_BYTES &&
			       bytes >= (size_t)VERBS_PRIVATE_DATA_HEADER + out->number
		       ? 0
		       : -EPROTO;
}

bool verbs_private_data_challenge(const uint8_t *data, size_t bytes,
				  uint8_t challenge[FABRIC_CHALLENGE_BYTES])
{
	struct verbs_private_data out;

	data_copy(data, bytes, &out);
	if (out.mark != VERBS_MARK || out.number != 0 ||
	    bytes < VERBS_PRIVATE_DATA_HEADER + FABRIC_CHALLENGE_BYTES)
		return false;
	memcpy(challenge, out.body, FABRIC_CHALLENGE_BYTES);
	return true;
}

int verbs_private_data_refusal(const uint8_t *data, size_t bytes, char why[FABRIC_REASON_BYTES + 1])
{
	struct verbs_private_data out;

	data_copy(data, bytes, &out);
	if (out.mark != VERBS_MARK || bytes <= VERBS_PRIVATE_DATA_HEADER)
		return 0;
	bytes -= VERBS_PRIVATE_DATA_HEADER;
	bytes = bytes < FABRIC_REASON_BYTES ? bytes : FABRIC_REASON_BYTES;
	memcpy(why, out.body, bytes);
	why[bytes] = '\0';
	for (char *c = why; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	return out.number > 0 && out.number <= CODE_MAX ? out.number : EPROTO;
}
