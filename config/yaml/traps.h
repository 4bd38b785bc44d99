/* SPDX-License-Identifier: Apache-2.0 */
/* Explains syntax errors that newcomers to YAML meet: what the file has, and what to write. */
#ifndef TICKBUS_CONFIG_YAML_TRAPS_H
#define TICKBUS_CONFIG_YAML_TRAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <yaml.h>

/* Writes "found this, expected that" for the error of a parser that read this text. False for an
 * error that is no known trap. */
bool traps_explain(const yaml_parser_t *, const char *text, size_t length, char *words,
		   size_t size);

#endif
