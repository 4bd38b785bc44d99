/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses with faults, and what the seed decides. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus/fault/fault_chance.h"
#include "tests/unit/bus/fault_scene.h"
#include "tickbus/error.h"

TestSuite(fault_plan, .init = scene_enter, .fini = scene_leave, .timeout = 60);

Test(fault_plan, seed_and_probabilities_are_read_exactly)
{
	struct fault_plan plan;

	cr_assert_eq(fault_plan_parse("seed=18446744073709551615,drop=0.5,dup=1,reorder=0.000000001"
				      ",delay=0.25,tear=1.000000000,fail=0,disconnect=0.0,"
				      "stall=0.999999999,freeze=0.01/memory:a,b/c",
				      &plan),
		     0, "%s", tb_error());
	cr_expect_eq(plan.seed, UINT64_MAX);
	cr_expect_eq(plan.billionths[FAULT_DROP], 500000000);
	cr_expect_eq(plan.billionths[FAULT_DUP], 1000000000);
	cr_expect_eq(plan.billionths[FAULT_REORDER], 1);
	cr_expect_eq(plan.billionths[FAULT_DELAY], 250000000);
	cr_expect_eq(plan.billionths[FAULT_TEAR], 1000000000);
	cr_expect_eq(plan.billionths[FAULT_FAIL], 0);
	cr_expect_eq(plan.billionths[FAULT_DISCONNECT], 0);
	cr_expect_eq(plan.billionths[FAULT_STALL], 999999999);
	cr_expect_eq(plan.billionths[FAULT_FREEZE], 10000000);
	cr_expect_str_eq(plan.ops->scheme, "memory");
	cr_expect_str_eq(plan.address, "a,b/c");
}

#define KEYS   "expected seed, drop, dup, reorder, delay, tear, fail, disconnect, stall or freeze"
#define CHANCE "expected a probability from 0 to 1 with at most 9 decimals, as 0.01"
#define SEED   "expected a number from 0 to 18446744073709551615"

Test(fault_plan, wrong_address_is_refused_with_the_place)
{
	static const struct {
		const char *text, *error;
	} cases[] = {
		{ "", "found no / with an address" },
		{ "memory:x", "found no / with an address" },
		{ "seed=1", "found no / with an address" },
		{ "/memory:x", "found \"\", " KEYS },
		{ "seed=1,/memory:x", "found \"\", " KEYS },
		{ "seed=1,,tear=1/memory:x", "found \"\", " KEYS },
		{ "seed=1,torn=1/memory:x", "found \"torn\", " KEYS },
		{ "seed=1,tea=1/memory:x", "found \"tea\", " KEYS },
		{ "tear=0.1/memory:x", "found no seed, expected seed=NUMBER" },
		{ "seed=1,seed=1/memory:x", "seed: found twice, expected once" },
		{ "seed=1,tear=0,drop=1,tear=0/memory:x", "tear: found twice, expected once" },
		{ "seed=/memory:x", "seed: found \"\", " SEED },
		{ "seed/memory:x", "seed: found \"\", " SEED },
		{ "seed=-1/memory:x", "seed: found \"-1\", " SEED },
		{ "seed=18446744073709551616/memory:x",
		  "seed: found \"18446744073709551616\", " SEED },
		{ "seed=1,tear/memory:x", "tear: found \"\", " CHANCE },
		{ "seed=1,tear=/memory:x", "tear: found \"\", " CHANCE },
		{ "seed=1,tear=1.000000001/memory:x", "tear: found \"1.000000001\", " CHANCE },
		{ "seed=1,tear=2/memory:x", "tear: found \"2\", " CHANCE },
		{ "seed=1,tear=18446744073709551617/memory:x",
		  "tear: found \"18446744073709551617\", " CHANCE },
		{ "seed=1,tear=0.0000000001/memory:x", "tear: found \"0.0000000001\", " CHANCE },
		{ "seed=1,tear=-0.1/memory:x", "tear: found \"-0.1\", " CHANCE },
		{ "seed=1,tear=.5/memory:x", "tear: found \".5\", " CHANCE },
		{ "seed=1,tear=1./memory:x", "tear: found \"1.\", " CHANCE },
		{ "seed=1,tear=0.1.2/memory:x", "tear: found \"0.1.2\", " CHANCE },
		{ "seed=1,tear=1e-3/memory:x", "tear: found \"1e-3\", " CHANCE },
		{ "seed=1,tear=0=1/memory:x", "tear: found \"0=1\", " CHANCE },
		{ "seed=1/fault:seed=2/memory:x", "found fault: twice, expected all faults" },
		{ "seed=1/nowhere:x", "address \"nowhere:x\": expected shm:NAME" },
		{ "seed=1/", "address \"\": expected shm:NAME" },
	};
	struct fault_plan plan;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_expect_eq(fault_plan_parse(cases[i].text, &plan), -EINVAL,
			     "%s: taken, expected %s", cases[i].text, cases[i].error);
		cr_expect(strstr(tb_error(), cases[i].error), "%s: %s, expected %s", cases[i].text,
			  tb_error(), cases[i].error);
		cr_expect(strstr(tb_error(), "address fault:"), "%s", tb_error());
	}
}

Test(fault_plan, user_below_becomes_an_id)
{
	static const struct {
		const char *address, *settled;
	} cases[] = {
		{ "shm:here,user=root", "here,user=0" },
		{ "fault:seed=1/shm:here,user=root", "seed=1/shm:here,user=0" },
		{ "fault:seed=1,tear=0.1/shm:here", "seed=1,tear=0.1/shm:here" },
		{ "fault:seed=1/memory:here,user=root", "seed=1/memory:here,user=root" },
	};
	char *settled;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_assert_eq(fabric_settle(cases[i].address, &settled), 0, "%s", tb_error());
		cr_expect_str_eq(settled, cases[i].settled);
		free(settled);
	}
	cr_expect_eq(fabric_settle("fault:seed=1/shm:here,user=no-such-user", &settled), -EINVAL);
	cr_expect_eq(fabric_settle("fault:shm:here", &settled), -EINVAL);
	cr_expect_null(settled);
}

Test(fault_plan, fault_happens_as_often_as_its_probability_says)
{
	const struct fault_plan plan = { .seed = 5, .billionths[FAULT_TEAR] = 250000000 };
	struct fault_chance chance;
	unsigned int met = 0;

	fault_chance_begin(&chance, &plan);
	for (unsigned int i = 0; i < 100000; i++) {
		met += fault_chance_met(&chance, FAULT_TEAR);
		cr_assert_not(fault_chance_met(&chance, FAULT_DROP));
	}
	cr_expect(met > 24000 && met < 26000, "%u", met);
}

/* 64 draws of a new connection. */
static uint64_t draws(uint64_t seed, enum fault_kind kind)
{
	struct fault_plan plan = { .seed = seed };
	struct fault_chance chance;
	uint64_t bits = 0;

	plan.billionths[kind] = FAULT_BILLION / 2;
	fault_chance_begin(&chance, &plan);
	for (unsigned int i = 0; i < 64; i++)
		bits = bits << 1 | fault_chance_met(&chance, kind);
	return bits;
}

/* Otherwise a connection that the seed ends early would never come up again. */
Test(fault_plan, next_connection_with_a_seed_goes_on_with_other_faults)
{
	const uint64_t first = draws(7, FAULT_TEAR), second = draws(7, FAULT_TEAR);

	cr_expect_neq(first, second);
	fault_restart();
	cr_expect_eq(draws(7, FAULT_TEAR), first);
	cr_expect_eq(draws(7, FAULT_TEAR), second);
	fault_restart();
	cr_expect_neq(draws(8, FAULT_TEAR), first);
	fault_restart();
	cr_expect_neq(draws(7, FAULT_FAIL), first);
}

Test(fault_plan, other_probability_leaves_other_faults_unchanged)
{
	struct fault_plan plan = { .seed = 9, .billionths[FAULT_TEAR] = FAULT_BILLION / 2 };
	struct fault_chance one, other;

	fault_chance_begin(&one, &plan);
	plan.billionths[FAULT_STALL] = FAULT_BILLION / 2;
	fault_restart();
	fault_chance_begin(&other, &plan);
	for (unsigned int i = 0; i < 1000; i++) {
		fault_chance_met(&other, FAULT_STALL);
		cr_assert_eq(fault_chance_met(&one, FAULT_TEAR),
			     fault_chance_met(&other, FAULT_TEAR));
	}
}
