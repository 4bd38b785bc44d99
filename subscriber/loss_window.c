/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the last 1,000 numbers of a sender are missing: a shift register of bits. */
#include "subscriber/loss_window.h"

#define WORD_BITS 64

/* The window is older by `step` numbers, below LOSS_WINDOW_NUMBERS. */
static void shift(uint64_t *missing, unsigned int step)
{
	const unsigned int words = step / WORD_BITS, bits = step % WORD_BITS;

	for (unsigned int i = LOSS_WINDOW_WORDS; i-- > 0;) {
		uint64_t word = 0;

		if (i >= words)
			word = missing[i - words] << bits;
		if (i > words && bits > 0)
			word |= missing[i - words - 1] >> (WORD_BITS - bits);
		missing[i] = word;
	}
}

/* The numbers between the last two that came: bits 1 to step - 1. */
static void fill(uint64_t *missing, unsigned int step)
{
	for (unsigned int i = 0; i < LOSS_WINDOW_WORDS && i * WORD_BITS < step; i++) {
		const unsigned int bits = step - i * WORD_BITS;

		missing[i] |= bits < WORD_BITS ? (UINT64_C(1) << bits) - 1 : UINT64_MAX;
	}
	missing[0] &= ~UINT64_C(1);
}

void loss_window_pass(struct loss_window *window, uint64_t step)
{
	const unsigned int last = LOSS_WINDOW_NUMBERS % WORD_BITS;

	if (step == 1 && window->count == 0)
		return;
	if (step < LOSS_WINDOW_NUMBERS)
		shift(window->missing, (unsigned int)step);
	else
		step = LOSS_WINDOW_NUMBERS;
	fill(window->missing, (unsigned int)step);
	window->missing[LOSS_WINDOW_WORDS - 1] &= (UINT64_C(1) << last) - 1;
	window->count = 0;
	for (unsigned int i = 0; i < LOSS_WINDOW_WORDS; i++)
		window->count += (unsigned int)__builtin_popcountll(window->missing[i]);
}
