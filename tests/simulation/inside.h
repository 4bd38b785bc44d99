/* SPDX-License-Identifier: Apache-2.0 */
/* One side runs inside a call of the other, between two loads or stores of shared words. */
#ifndef TICKBUS_TESTS_SIMULATION_INSIDE_H
#define TICKBUS_TESTS_SIMULATION_INSIDE_H

/* Readers run inside the write of some records. */
void inside_write(void (*write)(void));

#endif
