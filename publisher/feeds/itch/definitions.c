/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/feeds/itch/definitions.h"

#include <string.h>

static char code(char given)
{
	return given == ' ' ? '\0' : given;
}

struct tb_definition definitions_make(const struct itch_directory *directory)
{
	struct tb_definition definition = {
		.round_lot = directory->round_lot,
		.leverage = directory->etp_leverage,
		.category = { code(directory->category) },
		.financial_status = { code(directory->financial) },
		.round_lots_only = { code(directory->round_lots_only) },
		.classification = { code(directory->classification) },
		.authenticity = { code(directory->authenticity) },
		.short_sale_threshold = { code(directory->short_sale_threshold) },
		.ipo = { code(directory->ipo) },
		.luld_tier = { code(directory->luld_tier) },
		.etp = { code(directory->etp) },
		.inverse = { code(directory->inverse) },
	};

	if (memcmp(directory->subtype, "  ", sizeof(directory->subtype)) != 0)
		memcpy(definition.subtype, directory->subtype, sizeof(definition.subtype));
	return definition;
}
