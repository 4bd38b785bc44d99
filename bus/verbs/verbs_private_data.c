/* SPDX-License-Identifier: Apache-2.0 */
/* What an accept and a reject carry, from whoever listens there. */
#include "bus/verbs/verbs_private_data.h"

#include <errno.h>
#include <string.h>

#define CODE_MAX 4095

static void told_copy(const uint8_t *data, size_t bytes, struct verbs_private_data *told)
{
	memset(told, 0, sizeof(*told));
	memcpy(told, data, bytes < sizeof(*told) ? bytes : sizeof(*told));
}

int private_data_welcome(const uint8_t *data, size_t bytes, struct verbs_private_data *told)
{
	told_copy(data, bytes, told);
	return told->mark == VERBS_MARK && told->number <= FABRIC_WELCOME_BYTES &&
			       bytes >= (size_t)VERBS_PRIVATE_DATA_HEADER + told->number
		       ? 0
		       : -EPROTO;
}

int private_data_refusal(const uint8_t *data, size_t bytes, char why[FABRIC_REASON_BYTES + 1])
{
	struct verbs_private_data told;

	told_copy(data, bytes, &told);
	if (told.mark != VERBS_MARK || bytes <= VERBS_PRIVATE_DATA_HEADER)
		return 0;
	bytes -= VERBS_PRIVATE_DATA_HEADER;
	bytes = bytes < FABRIC_REASON_BYTES ? bytes : FABRIC_REASON_BYTES;
	memcpy(why, told.body, bytes);
	why[bytes] = '\0';
	for (char *c = why; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	return told.number > 0 && told.number <= CODE_MAX ? told.number : EPROTO;
}
