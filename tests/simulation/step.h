/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a history. Each draws what it does, and does nothing if it cannot be done now. */
#ifndef TICKBUS_TESTS_SIMULATION_STEP_H
#define TICKBUS_TESTS_SIMULATION_STEP_H

void step_brink(void);
void step_burst(void);
void step_calm(void);
void step_clock(void);
void step_close(void);
void step_corrupt(void);
void step_corrupt_value(void);
void step_cut(void);
void step_end(void);
void step_faults(void);
void step_flush(void);
void step_forge(void);
void step_freeze(void);
void step_hole(void);
void step_image(void);
void step_inside_reader(void);
void step_inside_writer(void);
void step_kill(void);
void step_late(void);
void step_leave(void);
void step_open(void);
void step_names(void);
void step_poll(void);
void step_publish(void);
void step_quality(void);
void step_register(void);
void step_restart(void);
void step_rewrite(void);
void step_settle(void);
void step_subscribe(void);
void step_time(void);
void step_work(void);

#endif
