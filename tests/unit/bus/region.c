/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of a region; a header that contradicts it is refused. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "bus/region.h"
#include "bus/bounds.h"
#include "tickbus/error.h"

static struct region_shape shape(void)
{
	return (struct region_shape){ .epoch = 1,
				      .fingerprint = 2,
				      .slots = 1024,
				      .slot_bytes = 64,
				      .capacity = 100,
				      .topic_id = 3,
				      .flags = REGION_FLAG_CHECKED | REGION_FLAG_LAST_VALUE };
}

Test(region, parts_follow_each_other_at_page_boundaries)
{
	struct region_shape s = shape();
	struct region_layout layout;

	cr_assert_eq(region_layout(&s, &layout), 0);
	cr_assert_eq(layout.progress, 4096);
	cr_assert_eq(layout.directory, 8192);
	cr_assert_eq(layout.last_value, 12288);
	cr_assert_eq(layout.ring, 20480);
	cr_assert_eq(layout.bytes, 20480 + 65536);
	s.flags = REGION_FLAG_CHECKED;
	cr_assert_eq(region_layout(&s, &layout), 0);
	cr_assert_eq(layout.last_value, 0);
	cr_assert_eq(layout.ring, 12288);
}

Test(region, value_outside_bounds_is_reported)
{
	struct region_shape s = shape();
	struct region_layout layout;

	s.slots = 1000;
	cr_assert_eq(region_layout(&s, &layout), -EINVAL);
	cr_assert_str_eq(tb_error(), "slots: found 1000, expected a power of two from 64 to "
				     "16777216");
	s = shape();
	s.slots = 32;
	cr_assert_eq(region_layout(&s, &layout), -EINVAL);
	s = shape();
	s.slot_bytes = 96;
	cr_assert_eq(region_layout(&s, &layout), -EINVAL);
	s = shape();
	s.capacity = 0;
	cr_assert_eq(region_layout(&s, &layout), -EINVAL);
	s = shape();
	s.flags = 0x10;
	cr_assert_eq(region_layout(&s, &layout), -EINVAL);
	s = shape();
	s.slots = BOUND_SLOTS_MAX;
	s.slot_bytes = SLOT_BYTES_MAX;
	cr_assert_eq(region_layout(&s, &layout), -EINVAL, "64 GiB are the limit");
}

Test(region, values_at_their_bounds_are_accepted)
{
	struct region_shape s = shape();
	struct region_layout layout;

	s.slots = BOUND_SLOTS_MIN;
	s.capacity = 1;
	s.slot_bytes = SLOT_BYTES_MAX;
	cr_expect_eq(region_layout(&s, &layout), 0, "%s", tb_error());
	s.slots = BOUND_SLOTS_MAX;
	s.capacity = BOUND_INSTRUMENTS_MAX;
	s.slot_bytes = SLOT_BYTES_MIN;
	cr_expect_eq(region_layout(&s, &layout), 0, "%s", tb_error());
	s.capacity++;
	cr_expect_eq(region_layout(&s, &layout), -EINVAL);
	s = shape();
	s.epoch = 0;
	cr_expect_eq(region_layout(&s, &layout), -EINVAL, "an epoch is never 0");
	s = shape();
	s.topic_id = 0;
	cr_expect_eq(region_layout(&s, &layout), -EINVAL, "a topic id is never 0");
}

Test(region, times_rise_in_groups_and_only_there)
{
	struct region_layout layout;

	for (uint32_t rises = 0; rises < 2; rises++)
		for (uint32_t group = 0; group < 3; group++) {
			struct region_shape s = shape();

			s.flags |= rises ? REGION_FLAG_TIME_RISES : 0;
			s.group = group;
			cr_expect_eq(region_layout(&s, &layout),
				     (group > 0) == (rises > 0) ? 0 : -EINVAL, "group %u, rises %u",
				     group, rises);
		}
}

Test(region, payload_gets_the_smallest_slot)
{
	cr_assert_eq(region_slot_bytes(0), 64);
	cr_assert_eq(region_slot_bytes(32), 64);
	cr_assert_eq(region_slot_bytes(33), 128);
	cr_assert_eq(region_slot_bytes(TB_PAYLOAD_MAX), 4096);
	cr_assert_eq(region_slot_bytes(TB_PAYLOAD_MAX + 1), 0);
}

Test(region, header_with_a_changed_bit_is_refused)
{
	struct region_shape s = shape();
	struct region_header header, copy;

	region_header_write(&header, &s, "nasdaq.quote");
	copy = header;
	cr_assert_eq(region_header_verify(&copy, &s, "nasdaq.quote"), 0);
	cr_assert_eq(region_header_verify(&copy, &s, "nasdaq.trade"), -EPROTO);
	for (unsigned int bit = 0; bit < sizeof(copy) * 8; bit++) {
		copy = header;
		((unsigned char *)&copy)[bit / 8] ^= (unsigned char)(1u << bit % 8);
		cr_assert_eq(region_header_verify(&copy, &s, "nasdaq.quote"), -EPROTO, "bit %u",
			     bit);
	}
}
