/* SPDX-License-Identifier: Apache-2.0 */
/* PFC is queried by DCB netlink messages, which need no permission. ECN is in files of the driver.
 */
#include "bus/verbs/congestion.h"

#include <dirent.h>
#include <errno.h>
#include <linux/dcbnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_MAX 4096
#define STACK_MAX  8 /* interfaces on each other */
#define LOWER      "lower_"

static bool lower_of(const char *root, const char *interface, char lower[IF_NAMESIZE])
{
	const size_t mark = strlen(LOWER);
	const struct dirent *entry;
	char path[256];
	DIR *folder;

	snprintf(path, sizeof(path), "%s/%s", root, interface);
	folder = opendir(path);
	lower[0] = '\0';
	while (folder && (entry = readdir(folder)))
		if (strncmp(entry->d_name, LOWER, mark) == 0 &&
		    (!lower[0] || strcmp(entry->d_name + mark, lower) < 0))
			snprintf(lower, IF_NAMESIZE, "%.*s", IF_NAMESIZE - 1, entry->d_name + mark);
	if (folder)
		closedir(folder);
	return lower[0] != '\0';
}

void congestion_interface(const char *root, const char *interface, char found[IF_NAMESIZE])
{
	char lower[IF_NAMESIZE];

	snprintf(found, IF_NAMESIZE, "%s", interface);
	for (int i = 0; i < STACK_MAX && lower_of(root, found, lower); i++)
		memcpy(found, lower, IF_NAMESIZE);
}

struct span {
	const uint8_t *at;
	size_t bytes;
};

/* The content of an attribute; NULL: there is no attribute of that type, or it is cut short. */
static struct span attribute(struct span in, uint16_t type)
{
	struct nlattr head;

	while (in.bytes >= sizeof(head)) {
		size_t whole;

		memcpy(&head, in.at, sizeof(head));
		if (head.nla_len < sizeof(head) || head.nla_len > in.bytes)
			break;
		if ((head.nla_type & NLA_TYPE_MASK) == type)
			return (struct span){ in.at + sizeof(head), head.nla_len - sizeof(head) };
		whole = ((size_t)head.nla_len + 3) / 4 * 4;
		if (whole >= in.bytes)
			break;
		in = (struct span){ in.at + whole, in.bytes - whole };
	}
	return (struct span){ NULL, 0 };
}

int congestion_pfc_of(const void *answer, size_t bytes)
{
	struct span in = { answer, bytes };
	struct nlmsghdr head;
	int code;

	if (bytes < sizeof(head))
		return -EPROTO;
	memcpy(&head, in.at, sizeof(head));
	if (head.nlmsg_len < NLMSG_HDRLEN || head.nlmsg_len > bytes)
		return -EPROTO;
	in = (struct span){ in.at + NLMSG_HDRLEN, head.nlmsg_len - NLMSG_HDRLEN };
	if (head.nlmsg_type == NLMSG_ERROR && in.bytes >= sizeof(code)) {
		memcpy(&code, in.at, sizeof(code));
		return code < 0 && code >= -4095 ? code : -EPROTO;
	}
	if (head.nlmsg_type != RTM_GETDCB || in.bytes < sizeof(struct dcbmsg))
		return -EPROTO;
	in = (struct span){ in.at + sizeof(struct dcbmsg), in.bytes - sizeof(struct dcbmsg) };
	in = attribute(attribute(in, DCB_ATTR_IEEE), DCB_ATTR_IEEE_PFC);
	if (in.bytes <= offsetof(struct ieee_pfc, pfc_en))
		return -EOPNOTSUPP;
	return in.at[offsetof(struct ieee_pfc, pfc_en)];
}

static int ask(int fd, const char *interface)
{
	struct {
		struct nlmsghdr head;
		struct dcbmsg dcb;
		struct nlattr name;
		char text[IF_NAMESIZE];
	} question = { .head = { .nlmsg_len = sizeof(question),
				 .nlmsg_type = RTM_GETDCB,
				 .nlmsg_flags = NLM_F_REQUEST },
		       .dcb = { .dcb_family = AF_UNSPEC, .cmd = DCB_CMD_IEEE_GET },
		       .name = { .nla_len = sizeof(struct nlattr) + IF_NAMESIZE,
				 .nla_type = DCB_ATTR_IFNAME } };
	const struct timeval patience = { .tv_sec = 1 };
	uint8_t answer[ANSWER_MAX];
	ssize_t bytes;

	strncpy(question.text, interface, IF_NAMESIZE - 1);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
	    send(fd, &question, sizeof(question), 0) < 0)
		return -errno;
	bytes = recv(fd, answer, sizeof(answer), 0);
	return bytes < 0 ? -errno : congestion_pfc_of(answer, (size_t)bytes);
}

int congestion_pfc(const char *interface)
{
	const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	int result;

	if (fd < 0)
		return -errno;
	result = ask(fd, interface);
	close(fd);
	return result;
}

/* As mlx5 has it. */
int congestion_ecn(const char *folder)
{
	int mask = -ENOENT;
	char path[256];

	for (int priority = 0; priority < CONGESTION_PRIORITIES; priority++) {
		FILE *file;
		int on;

		snprintf(path, sizeof(path), "%s/ecn/roce_np/enable/%d", folder, priority);
		file = fopen(path, "re");
		if (!file)
			continue;
		if (fscanf(file, "%d", &on) == 1)
			mask = (mask < 0 ? 0 : mask) | (on ? 1 << priority : 0);
		fclose(file);
	}
	return mask;
}
