/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/feeds/synthetic/synthetic_status.h"

#include <string.h>

/* A broad index of 5,000 points; levels are in units of 1/10^8. */
#define INDEX UINT64_C(500000000000)

static void name(char stock[ITCH_STOCK_BYTES], const struct synthetic_symbol *symbol)
{
	memcpy(stock, symbol->name, ITCH_STOCK_BYTES);
}

void synthetic_status_event(struct synthetic_tape *tape, char event)
{
	struct itch_message message = { .type = 'S', .event = { event } };

	synthetic_tape_put(tape, 0, &message);
}

/* The levels of the market-wide rules: 7, 13 and 20 per cent down. */
void synthetic_status_declines(struct synthetic_tape *tape)
{
	struct itch_message message = { .type = 'V' };

	message.decline.level1 = INDEX / 100 * 93;
	message.decline.level2 = INDEX / 100 * 87;
	message.decline.level3 = INDEX / 100 * 80;
	synthetic_tape_put(tape, 0, &message);
}

void synthetic_status_breach(struct synthetic_tape *tape, char level)
{
	struct itch_message message = { .type = 'W', .breach = { level } };

	synthetic_tape_put(tape, 0, &message);
}

void synthetic_status_directory(struct synthetic_tape *tape, const struct synthetic_symbol *symbol,
				bool ipo)
{
	struct itch_message message = { .type = 'R' };
	struct itch_directory *directory = &message.directory;
	bool fund = symbol->locate % 8 == 5;

	name(directory->stock, symbol);
	directory->category = "QGSNPZ"[symbol->locate % 6];
	directory->financial = 'N';
	directory->round_lot = SYNTHETIC_LOT;
	directory->round_lots_only = 'N';
	directory->classification = fund ? 'Q' : 'C';
	memcpy(directory->subtype, fund ? "E " : "Z ", sizeof(directory->subtype));
	directory->authenticity = 'P';
	directory->short_sale_threshold = 'N';
	directory->ipo = ipo ? 'Y' : 'N';
	directory->luld_tier = symbol->locate % 4 == 1 ? '1' : '2';
	directory->etp = fund ? 'Y' : 'N';
	directory->etp_leverage = fund;
	directory->inverse = 'N';
	synthetic_tape_put(tape, symbol->locate, &message);
}

void synthetic_status_action(struct synthetic_tape *tape, const struct synthetic_symbol *symbol,
			     char state, const char reason[4])
{
	struct itch_message message = { .type = 'H',
					.action = { .state = state, .reserved = ' ' } };

	name(message.action.stock, symbol);
	memcpy(message.action.reason, reason, sizeof(message.action.reason));
	synthetic_tape_put(tape, symbol->locate, &message);
}

void synthetic_status_short_sale(struct synthetic_tape *tape, const struct synthetic_symbol *symbol,
				 char action)
{
	struct itch_message message = { .type = 'Y', .reg_sho = { .action = action } };

	name(message.reg_sho.stock, symbol);
	synthetic_tape_put(tape, symbol->locate, &message);
}

void synthetic_status_maker(struct synthetic_tape *tape, const struct synthetic_symbol *symbol,
			    const char maker[4])
{
	struct itch_message message = {
		.type = 'L',
		.participant = { .primary = 'Y', .mode = 'N', .state = 'A' },
	};

	memcpy(message.participant.mpid, maker, sizeof(message.participant.mpid));
	name(message.participant.stock, symbol);
	synthetic_tape_put(tape, symbol->locate, &message);
}

void synthetic_status_ipo(struct synthetic_tape *tape, const struct synthetic_symbol *symbol,
			  uint32_t price)
{
	struct itch_message message = { .type = 'K', .ipo = { .qualifier = 'A', .price = price } };

	name(message.ipo.stock, symbol);
	message.ipo.release_s = (uint32_t)(SYNTHETIC_OPEN / SYNTHETIC_SECOND);
	synthetic_tape_put(tape, symbol->locate, &message);
}

void synthetic_status_listing(struct synthetic_tape *tape, const struct synthetic_symbol *symbol,
			      uint32_t price)
{
	struct itch_message message = {
		.type = 'O',
		.listing = {
			.eligible = 'Y',
			.lowest_price = price / 100 * 80,
			.highest_price = price / 100 * 120,
			.near_price = price,
			.near_time_ns = SYNTHETIC_OPEN,
			.lower_collar = price / 100 * 90,
			.upper_collar = price / 100 * 110,
		},
	};

	name(message.listing.stock, symbol);
	synthetic_tape_put(tape, symbol->locate, &message);
}

void synthetic_status_collar(struct synthetic_tape *tape, const struct synthetic_symbol *symbol,
			     uint32_t price)
{
	struct itch_message message = {
		.type = 'J',
		.collar = {
			.reference_price = price,
			.upper_price = price / 100 * 105,
			.lower_price = price / 100 * 95,
			.extension = symbol->locate % 3,
		},
	};

	name(message.collar.stock, symbol);
	synthetic_tape_put(tape, symbol->locate, &message);
}

void synthetic_status_halt(struct synthetic_tape *tape, const struct synthetic_symbol *symbol,
			   char action)
{
	struct itch_message message = {
		.type = 'h', .halt = { .market = "QBX"[symbol->locate % 3], .action = action }
	};

	name(message.halt.stock, symbol);
	synthetic_tape_put(tape, symbol->locate, &message);
}

void synthetic_status_retail(struct synthetic_tape *tape, const struct synthetic_symbol *symbol,
			     char side)
{
	struct itch_message message = { .type = 'N', .retail = { .interest = side } };

	name(message.retail.stock, symbol);
	synthetic_tape_put(tape, symbol->locate, &message);
}
