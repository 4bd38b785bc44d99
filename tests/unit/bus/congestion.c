/* SPDX-License-Identifier: Apache-2.0 */
/* PFC and ECN of interfaces, read from answers and files that the tests make. */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/dcbnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bus/verbs/congestion.h"

#define HEAD sizeof(struct nlattr)

/* The kernel's answer: the interface's name, then the attributes of 802.1Qaz, ETS and PFC. */
struct answer {
	struct nlmsghdr head;
	struct dcbmsg dcb;
	struct nlattr name;
	char interface[8];
	struct nlattr ieee, ets;
	uint8_t shares[8];
	struct nlattr pfc;
	struct ieee_pfc state;
} __attribute__((packed));

static struct answer an_answer(uint8_t enabled)
{
	return (struct answer){
		.head = { .nlmsg_len = sizeof(struct answer), .nlmsg_type = RTM_GETDCB },
		.dcb = { .cmd = DCB_CMD_IEEE_GET },
		.name = { HEAD + 5, DCB_ATTR_IFNAME },
		.interface = "eth0",
		.ieee = { sizeof(struct answer) - offsetof(struct answer, ieee),
			  DCB_ATTR_IEEE | NLA_F_NESTED },
		.ets = { HEAD + 8, DCB_ATTR_IEEE_ETS },
		.pfc = { HEAD + sizeof(struct ieee_pfc), DCB_ATTR_IEEE_PFC },
		.state = { .pfc_cap = 8, .pfc_en = enabled },
	};
}

Test(pfc, kernel_answer_gives_mask_of_priorities)
{
	struct answer answer = an_answer(0x18);

	cr_expect_eq(congestion_pfc_of(&answer, sizeof(answer)), 0x18);
	answer = an_answer(0);
	cr_expect_eq(congestion_pfc_of(&answer, sizeof(answer)), 0);
}

Test(pfc, driver_without_dcb_reports_no_pfc)
{
	struct {
		struct nlmsghdr head;
		struct nlmsgerr error;
	} refusal = { { .nlmsg_len = sizeof(refusal), .nlmsg_type = NLMSG_ERROR },
		      { .error = -EOPNOTSUPP } };
	struct answer answer = an_answer(0x18);

	cr_expect_eq(congestion_pfc_of(&refusal, sizeof(refusal)), -EOPNOTSUPP);
	refusal.error.error = 12;
	cr_expect_eq(congestion_pfc_of(&refusal, sizeof(refusal)), -EPROTO);
	answer.pfc.nla_type = DCB_ATTR_IEEE_MAXRATE;
	cr_expect_eq(congestion_pfc_of(&answer, sizeof(answer)), -EOPNOTSUPP);
}

Test(pfc, truncated_or_wrong_length_answer_gives_nothing)
{
	static const uint16_t lies[] = { 0, 3, 0xffff };
	struct answer whole = an_answer(0x18), answer;

	for (size_t bytes = 0; bytes < sizeof(answer); bytes++) {
		uint8_t *copy = malloc(bytes ? bytes : 1); /* a sanitizer sees reads behind it */

		memcpy(copy, &whole, bytes);
		cr_expect_lt(congestion_pfc_of(copy, bytes), 0, "%zu bytes", bytes);
		if (bytes >= sizeof(struct nlmsghdr)) {
			((struct nlmsghdr *)(void *)copy)->nlmsg_len = (uint32_t)bytes;
			congestion_pfc_of(copy, bytes);
		}
		free(copy);
	}
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		answer = whole;
		answer.name.nla_len = lies[i];
		cr_expect_eq(congestion_pfc_of(&answer, sizeof(answer)), -EOPNOTSUPP);
		answer = whole;
		answer.ets.nla_len = lies[i];
		cr_expect_eq(congestion_pfc_of(&answer, sizeof(answer)), -EOPNOTSUPP);
	}
}

Test(pfc, missing_or_loopback_interface_is_an_error)
{
	cr_expect_lt(congestion_pfc("nosuchinterface"), 0);
	cr_expect_lt(congestion_pfc("lo"), 0);
}

static void line_write(const char *folder, int priority, const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/ecn/roce_np/enable/%d", folder, priority);
	file = fopen(path, "we");
	cr_assert_not_null(file, "%s", path);
	fputs(text, file);
	fclose(file);
}

Test(ecn, driver_files_give_mask_of_priorities)
{
	static const char *const below[] = { "", "/ecn", "/ecn/roce_np", "/ecn/roce_np/enable" };
	char folder[] = "/tmp/tickbus-interface-XXXXXX", path[128];

	cr_assert_not_null(mkdtemp(folder));
	cr_expect_eq(congestion_ecn(folder), -ENOENT);
	for (int i = 1; i < 4; i++) {
		snprintf(path, sizeof(path), "%s%s", folder, below[i]);
		cr_assert_eq(mkdir(path, 0700), 0);
	}
	cr_expect_eq(congestion_ecn(folder), -ENOENT);
	line_write(folder, 0, "0\n");
	cr_expect_eq(congestion_ecn(folder), 0);
	line_write(folder, 3, "1\n");
	line_write(folder, 4, "none\n");
	cr_expect_eq(congestion_ecn(folder), 1 << 3);
	for (int i = 0; i < CONGESTION_PRIORITIES; i++) {
		snprintf(path, sizeof(path), "%s/ecn/roce_np/enable/%d", folder, i);
		unlink(path);
	}
	for (int i = 3; i >= 0; i--) {
		snprintf(path, sizeof(path), "%s%s", folder, below[i]);
		cr_expect_eq(rmdir(path), 0);
	}
}

Test(congestion, vlan_over_bond_gives_lowest_interface)
{
	static const char *const there[] = { "bond0.5",
					     "bond0.5/lower_bond0",
					     "bond0",
					     "bond0/lower_eth1",
					     "bond0/lower_eth0",
					     "eth0",
					     "ring",
					     "ring/lower_ring" };
	const int count = sizeof(there) / sizeof(there[0]);
	char root[] = "/tmp/tickbus-interfaces-XXXXXX", path[128], found[IF_NAMESIZE];

	cr_assert_not_null(mkdtemp(root));
	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "%s/%s", root, there[i]);
		cr_assert_eq(mkdir(path, 0700), 0);
	}
	congestion_interface(root, "bond0.5", found);
	cr_expect_str_eq(found, "eth0");
	congestion_interface(root, "eth0", found);
	cr_expect_str_eq(found, "eth0");
	congestion_interface(root, "nosuch", found);
	cr_expect_str_eq(found, "nosuch");
	congestion_interface(root, "ring", found);
	cr_expect_str_eq(found, "ring");
	for (int i = count; i-- > 0;) {
		snprintf(path, sizeof(path), "%s/%s", root, there[i]);
		rmdir(path);
	}
	rmdir(root);
}
