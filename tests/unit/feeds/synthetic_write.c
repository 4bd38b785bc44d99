/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a synthetic day for the oracle: SEED MESSAGES SECONDS RATE SYMBOLS BURST FILE. */
#include "publisher/feeds/synthetic/synthetic.h"
#include "tickbus/error.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	struct synthetic_settings settings = { 0 };

	if (argc != 8)
		return 2;
	settings.seed = strtoull(argv[1], NULL, 10);
	settings.messages = strtoull(argv[2], NULL, 10);
	settings.seconds = strtoull(argv[3], NULL, 10);
	settings.rate = strtoull(argv[4], NULL, 10);
	settings.symbols = (uint32_t)strtoul(argv[5], NULL, 10);
	settings.burst = (uint32_t)strtoul(argv[6], NULL, 10);
	if (synthetic_write(&settings, argv[7]) == 0)
		return 0;
	fprintf(stderr, "%s\n", tb_error());
	return 1;
}
