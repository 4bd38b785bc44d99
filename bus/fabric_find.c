/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the fabric of an address, which may be a decorator over another fabric. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus/address.h"
#include "bus/error.h"
#include "bus/fabric.h"
#include "bus/fault/fault.h"

static bool is_decorated(const char *address)
{
	return strncmp(address, FAULT_SCHEME ":", strlen(FAULT_SCHEME ":")) == 0;
}

const struct fabric_ops *fabric_find(const char *address, const char **rest)
{
	if (!is_decorated(address))
		return fabric_undecorated(address, rest);
	*rest = address + strlen(FAULT_SCHEME ":");
	return &fault_ops;
}

const struct fabric_ops *fabric_reached(const char *address, const char **rest)
{
	struct fault_plan plan;

	if (!is_decorated(address))
		return fabric_undecorated(address, rest);
	if (fault_plan_parse(address + strlen(FAULT_SCHEME ":"), &plan) < 0)
		return NULL;
	*rest = plan.address;
	return plan.ops;
}

int fabric_settle(const char *address, char **settled)
{
	const char *rest = NULL, *own = NULL;
	const struct fabric_ops *ops = fabric_reached(address, &own);
	char *part = NULL;
	int result = 0;

	*settled = NULL;
	if (!ops)
		return -EINVAL;
	fabric_find(address, &rest);
	if (!ops->network)
		result = address_settle(own, &part);
	if (result < 0)
		return result;
	if (asprintf(settled, "%.*s%s", (int)(own - rest), rest, part ? part : own) < 0) {
		*settled = NULL;
		result = error_set(ENOMEM, "%.100s: no memory", address);
	}
	free(part);
	return result;
}
