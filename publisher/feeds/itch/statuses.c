/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/feeds/itch/statuses.h"

#include <string.h>

bool statuses_wide(const struct itch_message *message)
{
	return message->type == 'S' || message->type == 'V' || message->type == 'W';
}

/* A level of a decline, in the message's 8 digits. */
static int64_t level(uint64_t value)
{
	return value < INT64_MAX ? (int64_t)value : INT64_MAX;
}

static void merge_declines(struct tb_status *status, const struct itch_decline *decline)
{
	status->level1 = level(decline->level1);
	status->level2 = level(decline->level2);
	status->level3 = level(decline->level3);
}

static void merge_collar(struct tb_status *status, const struct itch_collar *collar)
{
	status->reference_price = collar->reference_price;
	status->upper_price = collar->upper_price;
	status->lower_price = collar->lower_price;
	/* The highest number is the null. */
	status->extension = collar->extension - (collar->extension == TB_STATUS_EXTENSION_NULL);
}

static bool merge_halt(struct tb_status *status, const struct itch_halt *halt)
{
	char *const field = halt->market == 'Q'   ? status->halt_nasdaq
			    : halt->market == 'B' ? status->halt_bx
			    : halt->market == 'X' ? status->halt_psx
						  : NULL;

	if (field)
		field[0] = halt->action;
	return field;
}

bool statuses_merge(struct tb_status *status, const struct itch_message *message)
{
	switch (message->type) {
	case 'H':
		status->state[0] = message->action.state;
		memcpy(status->reason, message->action.reason, sizeof(status->reason));
		break;
	case 'h':
		if (!merge_halt(status, &message->halt))
			return false;
		break;
	case 'Y':
		status->reg_sho[0] = message->reg_sho.action;
		break;
	case 'J':
		merge_collar(status, &message->collar);
		break;
	case 'V':
		merge_declines(status, &message->decline);
		break;
	case 'W':
		status->breach[0] = message->breach.level;
		break;
	default:
		status->phase[0] = message->event.event;
	}
	status->message[0] = message->type;
	return true;
}
