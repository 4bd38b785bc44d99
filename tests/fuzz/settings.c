/* SPDX-License-Identifier: Apache-2.0 */
/* Any file is refused with a line for each error, or gives settings whose printed file gives the
 * same settings. */
#include <errno.h>
#include <string.h>

#include "config/settings.h"
#include "tests/fuzz/fuzz.h"

/* The printed settings, or NULL and error messages. */
static char *effective(const uint8_t *data, size_t size, size_t *length, char **messages)
{
	struct settings *settings;
	char path[32], *text = NULL;
	const int fd = fuzz_file_open(data, size, path);
	size_t messages_length;
	FILE *errors = open_memstream(messages, &messages_length), *out;
	const int result = settings_load(&settings, path, errors);

	fclose(errors);
	fuzz_file_close(fd);
	FUZZ_EXPECT((result == 0) == (settings != NULL) && (result == 0 || result == -EINVAL));
	FUZZ_EXPECT((result == 0) == (messages_length == 0));
	if (settings) {
		out = open_memstream(&text, length);
		settings_print(settings, out);
		fclose(out);
	}
	settings_free(settings);
	return text;
}

FUZZ_TARGET(data, size)
{
	size_t length, again_length;
	char *messages, *text = effective(data, size, &length, &messages), *again;

	free(messages);
	if (!text)
		return 0;
	fuzz_deep = true;
	again = effective((const uint8_t *)text, length, &again_length, &messages);
	if (!again)
		fprintf(stderr, "%s\n%s\n", text, messages);
	FUZZ_EXPECT(again && again_length == length && memcmp(text, again, length) == 0);
	free(messages);
	free(again);
	free(text);
	return 0;
}
