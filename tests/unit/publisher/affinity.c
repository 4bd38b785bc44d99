/* SPDX-License-Identifier: Apache-2.0 */
/* Which processors the control thread runs on and which NUMA node topics' memory is on, as the
 * kernel reports both. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bus/numa.h"
#include "bus/shm/shm.h"
#include "tests/support/scene.h"

static struct tb_publisher *publisher;
static int device_node;
static unsigned int devices_asked;
static char logged[512];

/* Shared memory of a device that is on a node. */
static int node(const char *address)
{
	(void)address;
	devices_asked++;
	return device_node;
}

static int node_unknown(const char *address)
{
	(void)address;
	return NUMA_ANY;
}

static void log_keep(void *user, enum tb_log_level level, const char *text)
{
	(void)user;
	if (strstr(text, ": listens at "))
		return;
	(void)level;
	snprintf(logged, sizeof(logged), "%s", text);
}

static void enter(void)
{
	static struct fabric_ops device_ops, unknown_ops;

	scene_enter();
	device_ops = shm_ops;
	device_ops.scheme = "device";
	device_ops.node = node;
	cr_assert_eq(fabric_add(&device_ops), 0);
	unknown_ops = shm_ops;
	unknown_ops.scheme = "unknown";
	unknown_ops.node = node_unknown;
	cr_assert_eq(fabric_add(&unknown_ops), 0);
}

static void leave(void)
{
	tb_publisher_close(publisher);
	scene_leave();
}

TestSuite(affinity, .init = enter, .fini = leave, .timeout = 60);

static int open_at(const char *address, uint32_t cpu, uint32_t numa)
{
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "test",
						      .listen = &address,
						      .listen_count = 1,
						      .exit_wait_ms = UINT32_MAX,
						      .log = log_keep,
						      .cpu = cpu,
						      .numa = numa };

	return tb_publisher_open(&publisher, &options);
}

/* The first line of a file that contains the key, or "". */
static void find(const char *path, const char *key, char *found, size_t bytes)
{
	FILE *file = fopen(path, "re");
	char line[1024];

	found[0] = '\0';
	while (file && !found[0] && fgets(line, sizeof(line), file))
		if (strstr(line, key))
			snprintf(found, bytes, "%.*s", (int)strcspn(line, "\n"), line);
	if (file)
		fclose(file);
}

/* The processors of this process's thread of that name. */
static void thread_cpus(const char *name, char *cpus, size_t bytes)
{
	DIR *list = opendir("/proc/self/task");
	struct dirent *entry;
	char path[300], found[300], wanted[64];

	cpus[0] = '\0';
	snprintf(wanted, sizeof(wanted), "\t%s", name);
	while (list && (entry = readdir(list))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
		find(path, "Name:", found, sizeof(found));
		if (!strstr(found, wanted))
			continue;
		find(path, "Cpus_allowed_list:", found, sizeof(found));
		snprintf(cpus, bytes, "%s", found[0] ? strchr(found, '\t') + 1 : "");
	}
	if (list)
		closedir(list);
	cr_assert(cpus[0], "there is no thread %s", name);
}

/* The policy of the mapping of a topic's memory: "default", "prefer:0". */
static void policy(const char *topic, char *text, size_t bytes)
{
	char key[64], line[1024];

	snprintf(key, sizeof(key), "memfd:%s", topic);
	find("/proc/self/numa_maps", key, line, sizeof(line));
	if (!line[0])
		cr_skip_test("this kernel shows no memory policies (/proc/self/numa_maps)");
	cr_assert_eq(sscanf(line, "%*s %31s", text), 1);
	(void)bytes;
}

static bool has_nodes(void)
{
	return numa_check(0) == 0;
}

/* The last processor that this thread may run on. */
static int last_cpu(void)
{
	cpu_set_t set;
	int last = 0;

	cr_assert_eq(sched_getaffinity(0, sizeof(set), &set), 0);
	for (int i = 0; i < CPU_SETSIZE; i++)
		last = CPU_ISSET((size_t)i, &set) ? i : last;
	return last;
}

Test(affinity, thread_runs_on_the_processor_of_the_options)
{
	char expected[16], found[256];

	snprintf(expected, sizeof(expected), "%d", last_cpu());
	cr_assert_eq(open_at("shm:test", TB_ON(last_cpu()), 0), 0, "%s", tb_error());
	thread_cpus("tickbus-control", found, sizeof(found));
	cr_expect_str_eq(found, expected);
}

Test(affinity, thread_keeps_the_callers_processors_by_default)
{
	char expected[256], found[256];

	find("/proc/thread-self/status", "Cpus_allowed_list:", expected, sizeof(expected));
	cr_assert_eq(open_at("shm:test", 0, 0), 0, "%s", tb_error());
	thread_cpus("tickbus-control", found, sizeof(found));
	cr_expect_str_eq(found, strchr(expected, '\t') + 1);
}

static void stay_on_last(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)last_cpu(), &one);
	cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
}

struct opening {
	const char *address;
	uint32_t numa;
	int result;
	char text[512];
};

static void *open_on_last(void *user)
{
	struct opening *opening = user;

	stay_on_last();
	opening->result = open_at(opening->address, 0, opening->numa);
	snprintf(opening->text, sizeof(opening->text), "%s", opening->result ? tb_error() : "");
	return NULL;
}

/* The calling thread stays on one processor; the control thread does not. */
static void expect_near(const char *address, uint32_t numa)
{
	struct opening opening = { .address = address, .numa = numa };
	char found[256], text[32] = "";
	cpu_set_t one, near, of_thread, of_process;
	pthread_t maker;

	if (!has_nodes())
		cr_skip_test("no NUMA node that memory can be placed on: %s", tb_error());
	cr_assert_eq(pthread_create(&maker, NULL, open_on_last, &opening), 0);
	cr_assert_eq(pthread_join(maker, NULL), 0);
	cr_assert_eq(opening.result, 0, "%s", opening.text);
	thread_cpus("tickbus-control", found, sizeof(found));
	cr_assert(numa_list(found, &of_thread) && numa_cpus(0, &near));
	cr_assert_eq(sched_getaffinity(getpid(), sizeof(of_process), &of_process), 0);
	CPU_AND(&near, &near, &of_process);
	CPU_AND(&one, &of_thread, &near);
	cr_expect(CPU_EQUAL(&one, &of_thread), "it may run on %s", found);
	cr_expect_gt(CPU_COUNT(&of_thread), CPU_COUNT(&near) > 1 ? 1 : 0, "%s", found);
	scene_topic(publisher, "near.topic", 64, 0);
	policy("near.topic", text, sizeof(text));
	cr_expect_str_eq(text, "prefer:0");
}

Test(affinity, memory_and_thread_are_on_the_node_of_the_options)
{
	expect_near("shm:test", TB_ON(0));
}

Test(affinity, memory_and_thread_default_to_the_devices_node)
{
	device_node = 0;
	expect_near("device:test", 0);
}

Test(affinity, thread_near_a_node_stays_in_the_process_affinity)
{
	char expected[16], found[256];
	cpu_set_t near;

	if (!has_nodes())
		cr_skip_test("no NUMA node that memory can be placed on: %s", tb_error());
	if (!numa_cpus(0, &near) || CPU_COUNT(&near) < 2)
		cr_skip_test("node 0 has no two processors");
	cr_assert_eq(getpid(), gettid(), "this is the main thread");
	stay_on_last();
	snprintf(expected, sizeof(expected), "%d", last_cpu());
	cr_assert_eq(open_at("shm:test", 0, TB_ON(0)), 0, "%s", tb_error());
	thread_cpus("tickbus-control", found, sizeof(found));
	cr_expect_str_eq(found, expected);
}

Test(affinity, restarted_topic_keeps_its_node)
{
	struct tb_topic *topic;
	char text[32] = "";

	if (!has_nodes())
		cr_skip_test("no NUMA node that memory can be placed on: %s", tb_error());
	cr_assert_eq(open_at("shm:test", 0, TB_ON(0)), 0, "%s", tb_error());
	topic = scene_topic(publisher, "again", 64, 0);
	cr_assert_eq(tb_topic_restart(topic), 0);
	policy("again", text, sizeof(text));
	cr_expect_str_eq(text, "prefer:0");
}

Test(affinity, memory_is_on_any_node_without_a_devices_node)
{
	char text[32] = "";

	device_node = NUMA_ANY;
	cr_assert_eq(open_at("device:test", 0, 0), 0, "%s", tb_error());
	scene_topic(publisher, "anywhere", 64, 0);
	policy("anywhere", text, sizeof(text));
	cr_expect_str_eq(text, "default");
	cr_expect_str_empty(logged);
}

Test(affinity, unknown_node_of_a_device_is_logged_and_ignored)
{
	char text[32] = "";

	device_node = 777;
	cr_assert_eq(open_at("device:test", 0, 0), 0, "%s", tb_error());
	cr_expect(strstr(logged, "the RDMA device's node: found node 777, expected one of ") ==
			  logged,
		  "%s", logged);
	scene_topic(publisher, "anywhere", 64, 0);
	policy("anywhere", text, sizeof(text));
	cr_expect_str_eq(text, "default");
}

/* Refuses mbind, as containers do. */
static void refuse_mbind(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mbind, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		cr_skip_test("cannot filter system calls: %s", strerror(errno));
}

Test(affinity, forbidden_mbind_fails_the_option_not_the_default)
{
	struct tb_topic *topic;

	if (!has_nodes())
		cr_skip_test("no NUMA node that memory can be placed on: %s", tb_error());
	refuse_mbind();
	cr_expect_eq(open_at("shm:test", 0, TB_ON(0)), -EPERM);
	cr_expect_str_eq(tb_error(), "publisher options: numa: memory cannot be placed on node 0: "
				     "Operation not permitted");
	device_node = 0;
	cr_assert_eq(open_at("device:test", 0, 0), 0, "%s", tb_error());
	cr_expect_str_eq(logged,
			 "the RDMA device's node: memory cannot be placed on node 0: Operation "
			 "not permitted; memory of topics is allocated on any node");
	topic = scene_topic(publisher, "anywhere", 64, 0);
	cr_expect_not_null(topic);
}

Test(affinity, missing_node_or_processor_is_refused_with_a_list)
{
	char nodes[256], cpus[256], text[1024];

	numa_line("/sys/devices/system/node/has_memory", nodes, sizeof(nodes));
	numa_line("/sys/devices/system/cpu/online", cpus, sizeof(cpus));
	if (!nodes[0])
		cr_skip_test("sysfs lists no nodes here");
	cr_expect_eq(open_at("shm:test", 0, TB_ON(777)), -EINVAL);
	snprintf(text, sizeof(text), "publisher options: numa: found node 777, expected one of %s",
		 nodes);
	cr_expect_str_eq(tb_error(), text);
	cr_expect_eq(open_at("shm:test", TB_ON(1000), 0), -EINVAL);
	snprintf(text, sizeof(text),
		 "publisher options: cpu: found processor 1000, expected one of %s that this "
		 "process may run on",
		 cpus);
	cr_expect_str_eq(tb_error(), text);
	cr_expect_eq(open_at("shm:test", TB_ON(CPU_SETSIZE), 0), -EINVAL);
	cr_assert_eq(open_at("shm:test", 0, 0), 0, "nothing was left behind: %s", tb_error());
}

Test(affinity, number_out_of_range_is_refused_before_any_device)
{
	static const uint32_t high[] = { CPU_SETSIZE + 1, INT32_MAX, UINT32_C(1) << 31,
					 UINT32_MAX };
	char text[128];

	for (size_t i = 0; i < sizeof(high) / sizeof(high[0]); i++) {
		cr_expect_eq(open_at("device:test", high[i], 0), -EINVAL);
		snprintf(text, sizeof(text),
			 "publisher options: cpu: found TB_ON(%u), expected 0 or TB_ON(0) to "
			 "TB_ON(1023)",
			 high[i] - 1);
		cr_expect_str_eq(tb_error(), text);
		cr_expect_eq(open_at("device:test", 0, high[i]), -EINVAL);
		snprintf(text, sizeof(text),
			 "publisher options: numa: found TB_ON(%u), expected 0 or TB_ON(0) to "
			 "TB_ON(1023)",
			 high[i] - 1);
		cr_expect_str_eq(tb_error(), text);
	}
	cr_expect_eq(devices_asked, 0);
}

Test(affinity, first_device_of_unknown_node_decides)
{
	static const char *const addresses[] = { "shm:test1", "unknown:test2", "device:test3" };
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "test",
						      .listen = addresses,
						      .listen_count = 3,
						      .exit_wait_ms = UINT32_MAX };

	device_node = 777;
	cr_assert_eq(tb_publisher_open(&publisher, &options), 0, "%s", tb_error());
	cr_expect_eq(devices_asked, 0);
}

/* -- lists of the kernel ------------------------------------------------------------------------
 */

Test(lists, kernel_lists_of_processors_are_parsed)
{
	static const char *const wrong[] = { "", ",", "1,", "-1", "2-1", "1-", "1 ", "a", "1024" };
	cpu_set_t set;

	cr_assert(numa_list("0-3,8,1023", &set));
	cr_expect_eq(CPU_COUNT(&set), 6);
	cr_expect(CPU_ISSET(0, &set) && CPU_ISSET(3, &set) && !CPU_ISSET(4, &set) &&
		  CPU_ISSET(8, &set) && CPU_ISSET(1023, &set));
	cr_assert(numa_list("7", &set));
	cr_expect_eq(CPU_COUNT(&set), 1);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_expect_not(numa_list(wrong[i], &set), "\"%s\"", wrong[i]);
}
