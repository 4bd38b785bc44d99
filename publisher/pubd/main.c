/* SPDX-License-Identifier: Apache-2.0 */
/* pubd: the publisher as a daemon in the foreground, configured by a YAML file.
 *
 * The main thread waits for signals and for feeds that are over. The library's thread answers
 * subscribers. Each feed writes its topics on its own thread. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "bus/error.h"
#include "publisher/pubd/daemon.h"
#include "bus/clock.h"
#include "publisher/pubd/fit.h"
#include "tickbus/version.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_SETTINGS = 2, EXIT_INCOMPLETE = 3 };

#define LEAVING_POLL_MS 20

enum mode { MODE_RUN, MODE_CHECK, MODE_PRINT };

static const char help[] =
	"usage: pubd FILE\n"
	"       pubd --check FILE\n"
	"       pubd --print-effective FILE\n"
	"\n"
	"Publishes the feeds that FILE (YAML, see pubd.yaml(5)) describes.\n"
	"\n"
	"  --check            checks FILE, prints every error, runs nothing\n"
	"  --print-effective  prints all settings, with defaults, as YAML\n"
	"  --help, -h         prints this\n"
	"  --version, -V      prints the version\n"
	"\n"
	"SIGTERM and SIGINT end it cleanly. SIGHUP reopens the log file and reads the\n"
	"ticket files of the realms again.\n"
	"Exit status: 0 done, 2 wrong settings or usage, 3 a feed's day was incomplete\n"
	"and the feed has incomplete: fail, 1 anything else.\n";

static int text_print(const char *text)
{
	if (fputs(text, stdout) != EOF && fflush(stdout) == 0)
		return EXIT_DONE;
	fprintf(stderr, "pubd: standard output: %s\n", strerror(errno));
	return EXIT_FAILED;
}

#define HINT "; 'pubd --help' shows the usage\n"

/* `argument` is the last argument that was read. Among several letters, it is the argument before.
 */
static int option_wrong(const char *argument)
{
	if (strncmp(argument, "--", 2) == 0)
		fprintf(stderr, "pubd: found %s, expected one of the options" HINT, argument);
	else
		fprintf(stderr, "pubd: unknown option -%c" HINT, optopt);
	return EXIT_SETTINGS;
}

/* Parses the command line. -1: go on, otherwise the exit status. */
static int arguments_parse(int argc, char **argv, enum mode *mode, const char **path)
{
	static const struct option options[] = {
		{ "check", no_argument, NULL, 'c' },
		{ "print-effective", no_argument, NULL, 'p' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	opterr = 0; /* the message is ours */
	while ((option = getopt_long(argc, argv, "hV", options, NULL)) != -1) {
		switch (option) {
		case 'c':
			*mode = *mode == MODE_RUN ? MODE_CHECK : *mode;
			break;
		case 'p':
			*mode = MODE_PRINT; /* includes the check */
			break;
		case 'h':
			return text_print(help);
		case 'V':
			return text_print("pubd " TB_VERSION "\n");
		default:
			return option_wrong(argv[optind - 1]);
		}
	}
	if (argc - optind != 1) {
		fprintf(stderr, "pubd: found %d files, expected 1" HINT, argc - optind);
		return EXIT_SETTINGS;
	}
	*path = argv[optind];
	return -1;
}

/* Otherwise a socket would get the number of a closed standard error, and the log would go to the
 * socket. Writing to a closed standard output still fails. */
static void standard_descriptors(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR);
}

/* Each subscriber needs descriptors, and so does each unread grant. The usual soft limit is low
 * only for programs that use select(2). */
static void descriptors_raise(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* Signals arrive as reads, in the main thread only. */
static int signals_open(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a file at its size limit is an error, not the end */
	return signalfd(-1, &set, SFD_CLOEXEC);
}

/* True if a signal that ends pubd is pending. */
static bool signals_pending_end(void)
{
	sigset_t set;

	sigpending(&set);
	return sigismember(&set, SIGTERM) || sigismember(&set, SIGINT);
}

/* Reads a signal. True for a signal that ends pubd; the log says what follows. */
static bool signal_take(struct daemon *daemon, struct log *log, int signal_fd, const char *what)
{
	struct signalfd_siginfo info;
	int reopened;

	if (read(signal_fd, &info, sizeof(info)) != sizeof(info))
		return false;
	if (info.ssi_signo != SIGHUP) {
		log_write(log, LOG_LEVEL_INFO, "SIG%s from pid %u; %s",
			  sigabbrev_np((int)info.ssi_signo), info.ssi_pid, what);
		return true;
	}
	reopened = log_reopen(log);
	if (reopened < 0)
		log_write(log, LOG_LEVEL_ERROR, "%s; continuing with the old log file", tb_error());
	else
		log_write(log, LOG_LEVEL_INFO, "%s",
			  reopened ? "log file reopened"
				   : "SIGHUP: the log has no file that could be reopened");
	daemon_reload_tickets(daemon);
	return false;
}

/* Waits until a signal ends pubd or the feeds are done. */
static void wait_for_end(struct daemon *daemon, struct log *log, int signal_fd, int done_fd)
{
	struct pollfd ready[2] = { { .fd = signal_fd, .events = POLLIN },
				   { .fd = done_fd, .events = POLLIN } };
	eventfd_t count;

	for (;;) {
		if (poll(ready, 2, -1) < 0)
			continue; /* a debugger attached or detached */
		if (ready[1].revents) {
			eventfd_read(done_fd, &count);
			if (daemon_lost(daemon)) {
				log_write(log, LOG_LEVEL_INFO, "the bus lost an address; exiting");
				return;
			}
			if (daemon_done(daemon)) {
				log_write(log, LOG_LEVEL_INFO, "all feeds are done; exiting");
				return;
			}
		}
		if ((ready[0].revents & POLLIN) && signal_take(daemon, log, signal_fd, "exiting"))
			return;
	}
}

/* Waits until subscribers have read to the end and left, until the time is over, or until another
 * signal. A subscriber that is about to join gets its turn. */
static void wait_for_readers(struct daemon *daemon, struct log *log, uint32_t wait_ms,
			     int signal_fd)
{
	const uint64_t late_ms = clock_ms() + wait_ms;
	struct pollfd ready = { .fd = signal_fd, .events = POLLIN };

	while (clock_ms() < late_ms) {
		if (poll(&ready, 1, LEAVING_POLL_MS) > 0 &&
		    signal_take(daemon, log, signal_fd, "exiting without waiting for subscribers"))
			return;
		if (daemon_readers_left(daemon))
			return;
	}
}

static int status_of(enum daemon_outcome outcome)
{
	switch (outcome) {
	case DAEMON_GOOD:
		return EXIT_DONE;
	case DAEMON_INCOMPLETE:
		return EXIT_INCOMPLETE;
	case DAEMON_FAILED:
		break;
	}
	return EXIT_FAILED;
}

static int run(struct settings *settings)
{
	struct log log = { 0 };
	struct daemon *daemon = NULL;
	int signal_fd = signals_open(), done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int status = EXIT_FAILED;

	if (log_open(&log, settings->log.file, (enum log_level)settings->log.level) < 0) {
		fprintf(stderr, "pubd: %s\n", tb_error());
	} else if (signal_fd < 0 || done_fd < 0) {
		log_write(&log, LOG_LEVEL_ERROR, "cannot create a signalfd or an eventfd: %s",
			  strerror(errno));
	} else if (daemon_open(&daemon, settings, &log, signals_pending_end, done_fd) < 0) {
		log_write(&log, LOG_LEVEL_ERROR, "%s", tb_error());
		if (settings->log.file)
			fprintf(stderr, "pubd: %s\n", tb_error());
	} else {
		settings_wipe_tickets(settings);
		wait_for_end(daemon, &log, signal_fd, done_fd);
		daemon_end(daemon);
		wait_for_readers(daemon, &log, settings->bus.exit_wait_ms, signal_fd);
		status = status_of(daemon_close(daemon));
	}
	if (signal_fd >= 0)
		close(signal_fd);
	if (done_fd >= 0)
		close(done_fd);
	log_close(&log);
	return status;
}

int main(int argc, char **argv)
{
	struct settings *settings = NULL;
	enum mode mode = MODE_RUN;
	const char *path = NULL;
	int status;

	standard_descriptors();
	descriptors_raise();
	status = arguments_parse(argc, argv, &mode, &path);
	if (status >= 0)
		return status;
	status = settings_load_checked(&settings, path, fit_check, stderr) < 0 ? EXIT_SETTINGS
									       : EXIT_DONE;
	if (status == EXIT_DONE && mode == MODE_PRINT) {
		settings_print(settings, stdout);
		if (fflush(stdout) != 0 || ferror(stdout)) {
			fprintf(stderr, "pubd: standard output: %s\n", strerror(errno));
			status = EXIT_FAILED;
		}
	} else if (status == EXIT_DONE && mode == MODE_RUN) {
		status = run(settings);
	}
	settings_free(settings);
	return status;
}
