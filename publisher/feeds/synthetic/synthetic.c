/* SPDX-License-Identifier: Apache-2.0 */
/* The day of the synthetic exchange: a list of phases, each taken step by step until it is done.
 *
 * A stream of exactly N messages stops trading in time: the rest is just enough to remove every
 * order from the books and to close. */
#include "publisher/feeds/synthetic/synthetic.h"

#include "bus/error.h"
#include "publisher/feeds/synthetic/synthetic_market.h"
#include "publisher/feeds/synthetic/synthetic_status.h"

#include <errno.h>
#include <stdlib.h>

#define INCIDENT_STEPS     16
#define INCIDENT_SPACING   12 /* messages between two steps of an incident */
#define INCIDENT_PAUSE_MIN 64 /* messages to the first incident; then four times as many */
#define INCIDENT_PAUSE_MAX 65536

struct synthetic {
	struct synthetic_settings settings;
	struct synthetic_market market;
	uint32_t *rank_of;
	uint32_t crosses; /* the most active symbols have an opening and a closing cross */
	uint32_t phase, step;
	uint32_t incident; /* 0: no incident; else its next step */
	uint64_t incident_due, incident_pause;
	struct synthetic_symbol *halted, *paused;
	uint64_t mistakes[2]; /* match numbers of crosses to break */
};

/* The messages left; without a limit, UINT64_MAX. */
static uint64_t left(const struct synthetic *s)
{
	return s->settings.messages ? s->settings.messages - s->market.tape.messages : UINT64_MAX;
}

/* Before the open there are fewer than 16 messages and 5 per symbol. */
static void begin_day(struct synthetic *s)
{
	synthetic_clock_begin(&s->market.tape.clock, s->settings.rate,
			      5 * (uint64_t)s->settings.symbols + 16);
	s->phase = s->step = 0;
}

static bool phase_begin(struct synthetic *s)
{
	synthetic_status_event(&s->market.tape, 'O');
	return false;
}

/* In alphabetical order, like the locates. */
static bool phase_directory(struct synthetic *s)
{
	uint32_t rank = s->rank_of[s->step];

	synthetic_status_directory(&s->market.tape, &s->market.symbols[rank],
				   rank == s->market.count - 1);
	return ++s->step < s->market.count;
}

static bool phase_status(struct synthetic *s)
{
	struct synthetic_tape *tape = &s->market.tape;
	const struct synthetic_symbol *symbol = &s->market.symbols[s->rank_of[s->step]];

	synthetic_status_action(tape, symbol, 'T', "    ");
	if (s->step % 16 == 0) {
		synthetic_status_short_sale(tape, symbol, '0');
		synthetic_status_maker(tape, symbol, synthetic_market_maker(&s->market));
	}
	return ++s->step < s->market.count;
}

/* The least active symbol goes public today; the symbol before it is listed directly. */
static bool phase_system_hours(struct synthetic *s)
{
	struct synthetic_tape *tape = &s->market.tape;
	const struct synthetic_symbol *public = &s->market.symbols[s->market.count - 1];
	const struct synthetic_symbol *direct = s->market.count > 1 ? public - 1 : public;

	synthetic_status_event(tape, 'S');
	synthetic_status_declines(tape);
	synthetic_status_ipo(tape, public, public->base * 100);
	synthetic_status_listing(tape, direct, direct->base * 100);
	return false;
}

static bool phase_early_orders(struct synthetic *s)
{
	struct synthetic_symbol *symbol = &s->market.symbols[s->step];

	synthetic_market_add(&s->market, symbol, SYNTHETIC_BID);
	synthetic_market_add(&s->market, symbol, SYNTHETIC_ASK);
	return ++s->step < s->market.count;
}

static bool phase_opening_imbalance(struct synthetic *s)
{
	synthetic_market_imbalance(&s->market, &s->market.symbols[s->step], 'O');
	return ++s->step < s->crosses;
}

static bool phase_open(struct synthetic *s)
{
	synthetic_clock_open(&s->market.tape.clock);
	synthetic_status_event(&s->market.tape, 'Q');
	s->incident_pause = INCIDENT_PAUSE_MIN;
	s->incident_due = s->market.tape.messages + s->incident_pause;
	return false;
}

static bool phase_opening_cross(struct synthetic *s)
{
	synthetic_market_cross(&s->market, &s->market.symbols[s->step], 'O');
	return ++s->step < s->crosses;
}

static void stop(struct synthetic *s, struct synthetic_symbol *symbol, char state,
		 const char reason[4])
{
	synthetic_status_action(&s->market.tape, symbol, state, reason);
	symbol->halted = true;
}

static void resume(struct synthetic *s, struct synthetic_symbol *symbol)
{
	synthetic_status_action(&s->market.tape, symbol, 'T', "    ");
	symbol->halted = false;
}

/* Any symbol except the most active, which carries the market meanwhile. */
static struct synthetic_symbol *symbol_draw(struct synthetic *s)
{
	uint32_t others = s->market.count - 1;
	uint32_t rank = others ? 1 + synthetic_random_below(&s->market.random, others) : 0;

	return &s->market.symbols[rank];
}

/* A halt for news, a volatility pause, a halt of one market alone, and a sign of retail interest.
 * The crosses of halt and pause were mistakes: the exchange breaks the older trade, then the latest
 * trade of the pause. Each step is one message. */
static void incident_step(struct synthetic *s)
{
	struct synthetic_market *market = &s->market;
	struct synthetic_tape *tape = &market->tape;

	switch (s->incident++) {
	case 0:
		s->halted = symbol_draw(s);
		s->paused = symbol_draw(s);
		stop(s, s->halted, 'H', "T1  ");
		break;
	case 1:
		synthetic_status_retail(tape, market->symbols, "BSA"[market->last_ref % 3]);
		break;
	case 2:
		stop(s, s->halted, 'Q', "T3  ");
		break;
	case 3:
		synthetic_market_imbalance(market, s->halted, 'H');
		break;
	case 4:
		s->mistakes[0] = market->last_match + 1;
		synthetic_market_cross(market, s->halted, 'H');
		break;
	case 5:
		resume(s, s->halted);
		break;
	case 6:
		stop(s, s->paused, 'P', "LUDP");
		break;
	case 7:
		synthetic_status_collar(tape, s->paused, synthetic_book_middle(s->paused));
		break;
	case 8:
		synthetic_status_short_sale(tape, s->paused, '1');
		break;
	case 9:
		synthetic_market_imbalance(market, s->paused, 'H');
		break;
	case 10:
		s->mistakes[1] = market->last_match + 1;
		synthetic_market_cross(market, s->paused, 'H');
		break;
	case 11:
		synthetic_market_broken(market, s->halted, s->mistakes[0]);
		break;
	case 12:
		synthetic_market_broken(market, s->paused, s->mistakes[1]);
		break;
	case 13:
		resume(s, s->paused);
		break;
	case 14:
		s->halted->halted = true;
		synthetic_status_halt(tape, s->halted, 'H');
		break;
	default:
		s->halted->halted = false;
		s->incident = 0;
		synthetic_status_halt(tape, s->halted, 'T');
		break;
	}
}

static void incident_next(struct synthetic *s)
{
	uint64_t pause = INCIDENT_SPACING;

	incident_step(s);
	if (!s->incident) {
		if (s->incident_pause < INCIDENT_PAUSE_MAX)
			s->incident_pause *= 4;
		pause = s->incident_pause;
	}
	s->incident_due = s->market.tape.messages + pause;
}

/* True if the close is due after `reserve` more messages. */
static bool closing_due(const struct synthetic *s, uint64_t reserve)
{
	uint64_t seconds = s->settings.seconds ? s->settings.seconds : SYNTHETIC_DAY_SECONDS;
	uint64_t close = 2 * (uint64_t)s->crosses + 4;

	if (s->settings.messages)
		return left(s) < s->market.live + close + reserve;
	return s->market.tape.clock.now >= SYNTHETIC_OPEN + seconds * SYNTHETIC_SECOND;
}

/* An event is one message that adds at most one order, or a few messages that add no order. An
 * incident takes one message per step, and is completed before the close. */
static bool phase_trading(struct synthetic *s)
{
	const uint64_t event = SYNTHETIC_FILLS_MAX;
	bool due = s->market.tape.messages >= s->incident_due;
	bool late = closing_due(s, 2 * event + INCIDENT_STEPS);

	if (s->incident ? due || late : due && !late)
		incident_next(s);
	else
		synthetic_market_event(&s->market);
	return s->incident || !closing_due(s, event);
}

/* So late in the day, a decline of the first level no longer halts trading. */
static bool phase_late(struct synthetic *s)
{
	synthetic_status_breach(&s->market.tape, '1');
	return false;
}

/* Repeats until the rest is what the close needs. */
static bool phase_closing_imbalance(struct synthetic *s)
{
	uint64_t rest = s->market.live + s->crosses + 3;

	synthetic_market_imbalance(&s->market, &s->market.symbols[s->step % s->crosses], 'C');
	return ++s->step < s->crosses || (s->settings.messages && left(s) > rest);
}

static bool phase_close(struct synthetic *s)
{
	synthetic_status_event(&s->market.tape, 'M');
	return false;
}

static bool phase_closing_cross(struct synthetic *s)
{
	synthetic_market_cross(&s->market, &s->market.symbols[s->step], 'C');
	return ++s->step < s->crosses;
}

/* Orders are good for the day. */
static bool phase_expiry(struct synthetic *s)
{
	struct synthetic_symbol *symbol = &s->market.symbols[s->step];

	for (unsigned side = SYNTHETIC_BID; side <= SYNTHETIC_ASK; side++)
		while (symbol->count[side])
			synthetic_market_delete(&s->market, symbol, side, symbol->count[side] - 1);
	return ++s->step < s->market.count;
}

static bool phase_end(struct synthetic *s)
{
	synthetic_status_event(&s->market.tape, 'E');
	synthetic_status_event(&s->market.tape, 'C');
	return false;
}

/* Each takes one step, and returns true while there is another step. */
static bool (*const day[])(struct synthetic *) = {
	phase_begin,
	phase_directory,
	phase_status,
	phase_system_hours,
	phase_early_orders,
	phase_opening_imbalance,
	phase_open,
	phase_opening_cross,
	phase_trading,
	phase_late,
	phase_closing_imbalance,
	phase_close,
	phase_closing_cross,
	phase_expiry,
	phase_end,
};

#define PHASES (sizeof(day) / sizeof(day[0]))

/* Continues the day until the tape is full, or the day or the stream ends. */
static bool fill(struct synthetic *s)
{
	struct synthetic_tape *tape = &s->market.tape;

	tape->used = tape->read = 0;
	while (sizeof(tape->bytes) - tape->used >= SYNTHETIC_TAPE_STEP) {
		if (s->phase == PHASES) {
			if (s->settings.messages || s->settings.seconds)
				break;
			begin_day(s);
		}
		if (!day[s->phase](s)) {
			s->phase++;
			s->step = 0;
		}
	}
	return tape->used > 0;
}

int synthetic_next(struct synthetic *s, const uint8_t **bytes, size_t *length)
{
	struct synthetic_tape *tape = &s->market.tape;
	const uint8_t *frame;

	if (tape->read == tape->used && !fill(s))
		return 0;
	frame = tape->bytes + tape->read;
	*bytes = frame + 2;
	*length = frame[1];
	tape->read += 2 + *length;
	return 1;
}

static uint64_t expected_messages(const struct synthetic_settings *settings)
{
	if (settings->messages)
		return settings->messages;
	return (settings->seconds ? settings->seconds : SYNTHETIC_DAY_SECONDS) * settings->rate;
}

int synthetic_open(struct synthetic **synthetic, const struct synthetic_settings *settings)
{
	struct synthetic_settings resolved;
	struct synthetic *s;
	int result = synthetic_resolve(settings, &resolved);

	*synthetic = NULL;
	if (result < 0)
		return result;
	s = calloc(1, sizeof(*s));
	if (!s)
		goto fail;
	s->settings = resolved;
	s->crosses = resolved.symbols < 16 ? 1 : resolved.symbols / 16;
	s->market.count = resolved.symbols;
	s->market.symbols = calloc(resolved.symbols, sizeof(*s->market.symbols));
	s->rank_of = calloc(resolved.symbols, sizeof(*s->rank_of));
	if (!s->market.symbols || !s->rank_of)
		goto fail;
	synthetic_random_seed(&s->market.random, resolved.seed);
	synthetic_book_list(s->market.symbols, s->rank_of, resolved.symbols, &s->market.random);
	synthetic_market_init(&s->market, expected_messages(&resolved));
	synthetic_clock_init(&s->market.tape.clock, ~resolved.seed, resolved.rate, resolved.burst);
	begin_day(s);
	*synthetic = s;
	return 0;
fail:
	synthetic_close(s);
	return error_set(ENOMEM, "synthetic: no memory for %u symbols", resolved.symbols);
}

void synthetic_close(struct synthetic *s)
{
	if (!s)
		return;
	free(s->rank_of);
	free(s->market.symbols);
	free(s);
}
