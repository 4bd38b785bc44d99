/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus doctor: whether this host, and perhaps a bus, is fit for RDMA. */
#include <errno.h>
#include <stdio.h>

#include "tickbus/doctor.h"
#include "tickbus/inspect.h"
#include "tools/command.h"
#include "tools/table.h"

static const struct table_column columns[] = {
	{ "verdict", TABLE_TEXT },
	{ "about", TABLE_TEXT },
	{ "found", TABLE_TEXT },
	{ "remedy", TABLE_TEXT },
};

static const char *verdict_word(enum tb_verdict verdict)
{
	switch (verdict) {
	case TB_VERDICT_GOOD:
		return "good";
	case TB_VERDICT_ADVICE:
		return "advice";
	case TB_VERDICT_BAD:
		return "bad";
	}
	return "unknown";
}

static void on_finding(void *user, const struct tb_finding *finding)
{
	struct table *table = user;

	table_text(table, verdict_word(finding->verdict));
	table_text(table, finding->about);
	table_text(table, finding->found);
	table_text(table, finding->remedy);
}

/* Whether the bus answers from here. A refusal is an answer. The number of bad findings. */
static int bus_look(struct table *table, const char *address, const struct command_look *look)
{
	const struct tb_inspect_options options = { .size = sizeof(options),
						    .address = address,
						    .timeout_ms = look->timeout_ms,
						    .ticket = look->ticket };
	struct tb_finding finding = { sizeof(finding), TB_VERDICT_GOOD, address, NULL, "" };
	char found[64];
	const int topics = tb_inspect_topics(&options, NULL, NULL, NULL, NULL);

	snprintf(found, sizeof(found), "a bus with %d topics answers", topics);
	finding.found = topics < 0 ? tb_error() : found;
	if (topics == -EACCES) {
		finding.verdict = TB_VERDICT_ADVICE;
		finding.remedy = "show a ticket that the bus knows (--ticket), or see access in "
				 "pubd's settings";
	} else if (topics < 0) {
		finding.verdict = TB_VERDICT_BAD;
		finding.remedy = "see whether pubd runs there, and what its log says";
	}
	on_finding(table, &finding);
	return finding.verdict == TB_VERDICT_BAD;
}

static int doctor_print(const struct command *command, const char *address,
			const struct command_look *look)
{
	struct table table = { .columns = columns,
			       .column_count = sizeof(columns) / sizeof(columns[0]) };
	int bad = tb_doctor(on_finding, &table), status;

	if (bad >= 0 && address)
		bad += bus_look(&table, address, look);
	if (bad < 0) {
		table_free(&table);
		return command_failed(command, bad);
	}
	status = table_print(&table, look->format, command->name);
	return status == COMMAND_DONE && bad > 0 ? COMMAND_FAILED : status;
}

static int doctor_run(struct command_call *call)
{
	struct command_look look;

	if (command_look(call, &look) < 0)
		return call->status;
	return doctor_print(call->command, call->operands[0], &look);
}

const struct command doctor_command = {
	.name = "doctor",
	.operands = "[ADDRESS]",
	.words = "check what this host has for a bus over RDMA",
	.options = command_look_options,
	.operands_min = 0,
	.operands_max = 1,
	.run = doctor_run,
};
