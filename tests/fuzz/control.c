/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages: a message that can be decoded is encoded to the same bytes again, so no byte
 * was dropped, cut or invented. */
#include <string.h>

#include "bus/control.h"
#include "tests/fuzz/fuzz.h"

static void as_read(const uint8_t *data, size_t size, const uint8_t *again, size_t written)
{
	fuzz_deep = true;
	FUZZ_EXPECT(written == size && memcmp(again, data, size) == 0);
}

FUZZ_TARGET(data, size)
{
	static struct control_message message;
	struct control_hello hello;
	struct control_welcome welcome;
	uint8_t which, again[FABRIC_MESSAGE_BYTES];

	if (size == 0)
		return 0;
	which = *data++ % 3;
	size--;
	if (which == 0 && control_hello_decode(data, size, &hello) == 0)
		as_read(data, size, again, control_hello_encode(&hello, again));
	if (which == 1 && control_welcome_decode(data, size, &welcome) == 0)
		as_read(data, size, again, control_welcome_encode(&welcome, again));
	if (which == 2 && control_decode(data, size, &message) == 0)
		as_read(data, size, again, control_encode(&message, again));
	return 0;
}
