/* SPDX-License-Identifier: Apache-2.0 */
/* A history is a list of steps. Each step draws all that it does from its own seed. So it does the
 * same after other steps are taken out of the list. */
#ifndef TICKBUS_TESTS_SIMULATION_HISTORY_H
#define TICKBUS_TESTS_SIMULATION_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STEPS_MAX 192

enum step_kind {
	STEP_PUBLISH,
	STEP_BURST,
	STEP_INSIDE_WRITER,
	STEP_REWRITE,
	STEP_FLUSH,
	STEP_NAME,
	STEP_QUALITY,
	STEP_HOLE,
	STEP_POLL,
	STEP_INSIDE_READER,
	STEP_WORK,
	STEP_TURN,
	STEP_TIME,
	STEP_FREEZE,
	STEP_RESTART,
	STEP_END,
	STEP_CLOSE,
	STEP_KILL,
	STEP_OPEN,
	STEP_CUT,
	STEP_FORGE,
	STEP_CORRUPT,
	STEP_CORRUPT_VALUE,
	STEP_FAULTS,
	STEP_CALM,
	STEP_IMAGE,
	STEP_BRINK,
	STEP_LATE,
	STEP_SUBSCRIBE,
	STEP_LEAVE,
	STEP_CLOCK,
	STEP_CHOOSE,
	STEP_SETTLE,
	STEP_KINDS
};

struct step {
	enum step_kind kind;
	uint64_t seed;
};

struct history {
	uint64_t seed; /* of the world: its fabric and its topics */
	size_t count;
	struct step steps[STEPS_MAX];
};

/* The history of a seed. */
void history_make(struct history *, uint64_t seed);
/* Runs it in a new world. False: model_wrong says what was wrong. With trace it prints each step
 * and each call of a handler. */
bool history_run(const struct history *, bool trace);
const char *step_name(enum step_kind);

#endif
