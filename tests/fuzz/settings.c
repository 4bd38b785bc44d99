/* SPDX-License-Identifier: Apache-2.0 */
/* Any file is refused with a line for each error, or is settings that print to a file of the same
 * settings. */
#include <errno.h>
#include <string.h>

#include "config/settings.h"
#include "tests/fuzz/fuzz.h"

/* The settings as they are printed, or NULL with errors in words. */
static char *effective(const uint8_t *data, size_t size, size_t *length, char **words)
{
	struct settings *settings;
	char path[32], *text = NULL;
	const int fd = fuzz_file_open(data, size, path);
	size_t words_length;
	FILE *errors = open_memstream(words, &words_length), *out;
	const int result = settings_load(&settings, path, errors);

	fclose(errors);
	fuzz_file_close(fd);
	FUZZ_EXPECT((result == 0) == (settings != NULL) && (result == 0 || result == -EINVAL));
	FUZZ_EXPECT((result == 0) == (words_length == 0));
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
	char *words, *text = effective(data, size, &length, &words), *again;

	free(words);
	if (!text)
		return 0;
	fuzz_deep = true;
	again = effective((const uint8_t *)text, length, &again_length, &words);
	if (!again)
		fprintf(stderr, "%s\n%s\n", text, words);
	FUZZ_EXPECT(again && again_length == length && memcmp(text, again, length) == 0);
	free(words);
	free(again);
	free(text);
	return 0;
}
