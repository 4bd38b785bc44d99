/* SPDX-License-Identifier: Apache-2.0 */
/* Z3  From a user that it does not trust (Z7) a subscriber installs no descriptor but memfds. A
 *     frame with descriptors stays in the queue until the porter takes it. The porter shares the
 *     socket right after it is connected. If the subscriber ends later, however that happens, the
 *     porter closes what is queued.
 * Z4  While the porter takes frames, no other frame is received: frames keep their order. After a
 *     frame it waits for more, so a single request serves many joins. It stops at a frame without
 *     descriptors. If it is silent for QUIET_MS, it is called. If it does not answer for ANSWER_MS,
 *     and then for LAST_MS, it hangs, and the connection ends. The clock may have jumped, for
 *     example while both processes were stopped: each time begins when this process finds that the
 *     time before has passed.
 * Z7  From root and from its own user a subscriber takes descriptors itself, whatever they are.
 *     Their publisher can make it wait in close() (shm_trust.h). */
#include "bus/shm/shm_inlet.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bus/clock.h"
#include "bus/error.h"
#include "bus/shm/shm_rights.h"
#include "bus/shm/shm_trust.h"

#define FRAMES_OF_A_REQUEST 32 /* they fit into the pair's queue */
#define QUIET_MS            1000
#define ANSWER_MS           2000
#define LAST_MS             100

static int watch(struct shm_inlet *inlet, int action, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (epoll_ctl(inlet->epoll, action, fd, &event) == 0)
		return 0;
	return error_set(errno, "cannot watch the connection: %s", strerror(errno));
}

/* After the shutdown nothing more is queued. A socket with queued descriptors and no porter stays
 * open: a process that can start no porter is short of much else. */
void shm_inlet_discard(int socket, const struct shm_origin *origin)
{
	struct shm_porter *porter = NULL;

	shutdown(socket, SHUT_RDWR);
	if (shm_trusts(origin->user)) {
		close(socket);
		return;
	}
	if (!shm_rights_drain(socket) && shm_porter_start(&porter, PORTER_TAKE, socket, origin) < 0)
		return;
	close(socket);
	shm_porter_end(porter);
}

int shm_inlet_open(struct shm_inlet *inlet, int socket, const struct shm_origin *origin)
{
	int result;

	*inlet = (struct shm_inlet){ .socket = -1, .epoll = -1 };
	result = shm_trusts(origin->user)
			 ? 0
			 : shm_porter_start(&inlet->porter, PORTER_TAKE, socket, origin);
	if (result < 0) {
		shm_inlet_discard(socket, origin);
		return result;
	}
	inlet->socket = socket;
	inlet->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (inlet->epoll < 0)
		result = error_set(errno, "cannot create an epoll descriptor: %s", strerror(errno));
	else
		result = watch(inlet, EPOLL_CTL_ADD, socket);
	if (result < 0)
		shm_inlet_close(inlet);
	return result;
}

/* Exactly the socket, or the porter's pair, wakes the subscriber: the other has nothing to do. */
static int turn_to(struct shm_inlet *inlet, bool asked)
{
	const int from = asked ? inlet->socket : inlet->porter->pair;
	const int to = asked ? inlet->porter->pair : inlet->socket;
	const int result = watch(inlet, EPOLL_CTL_ADD, to);

	if (result < 0)
		return -EPIPE;
	inlet->asked = asked;
	return watch(inlet, EPOLL_CTL_DEL, from) < 0 ? -EPIPE : 0;
}

static int porter_ended(void)
{
	return error_set(EPIPE, "the process that takes the descriptors of this connection ended");
}

static int ask(struct shm_inlet *inlet)
{
	if (shm_porter_send(inlet->porter, PORTER_WANT, FRAMES_OF_A_REQUEST, -1) < 0)
		return porter_ended();
	inlet->heard_ms = clock_ms();
	inlet->silence = PORTER_QUIET;
	return turn_to(inlet, true);
}

static int verdict(struct porter_message *message, int bytes)
{
	if (bytes == 0 || bytes >= FABRIC_REASON_BYTES)
		return porter_ended();
	message->body[bytes] = '\0';
	error_set(EPROTO, "%s", (const char *)message->body);
	return message->number == EMFILE ? -EMFILE : -EBADMSG;
}

/* The porter did not answer yet. Whether it hangs. */
static bool hangs(struct shm_inlet *inlet)
{
	static const uint64_t patience_ms[] = {
		[PORTER_QUIET] = QUIET_MS, [PORTER_CALLED] = ANSWER_MS, [PORTER_SILENT] = LAST_MS
	};
	const uint64_t now = clock_ms();

	if (now - inlet->heard_ms < patience_ms[inlet->silence])
		return false;
	if (inlet->silence == PORTER_SILENT)
		return true;
	if (inlet->silence++ == PORTER_QUIET)
		shm_porter_send(inlet->porter, PORTER_CALL, 0, -1);
	inlet->heard_ms = now;
	return false;
}

/* Takes the next answer of the porter. 0: it takes no more. */
static int answer_receive(struct shm_inlet *inlet, struct shm_frame *frame, int *fd)
{
	struct porter_message message;
	const int bytes = shm_porter_receive(inlet->porter, &message, fd);

	if (bytes == -EAGAIN && hangs(inlet))
		return error_set(EPIPE, "the process that takes the descriptors of this connection "
					"hangs");
	if (bytes == -EAGAIN)
		return -EAGAIN;
	if (bytes == -EMFILE)
		return error_set(EMFILE, "no descriptor is left for the memory that was handed "
					 "over (see ulimit -n)");
	if (bytes < 0)
		return porter_ended();
	inlet->heard_ms = clock_ms();
	inlet->silence = PORTER_QUIET;
	if (message.what == PORTER_DONE)
		return turn_to(inlet, false);
	if (message.what == PORTER_VERDICT)
		return verdict(&message, bytes);
	if (message.what != PORTER_FRAME || bytes <= (int)sizeof(frame->kind) || *fd < 0)
		return porter_ended();
	if (message.number == 0 && turn_to(inlet, false) < 0)
		return -EPIPE;
	memcpy(frame, message.body, (size_t)bytes);
	return bytes - (int)sizeof(frame->kind);
}

int shm_inlet_receive(struct shm_inlet *inlet, struct shm_frame *frame, int *fd)
{
	int result = 0;

	*fd = -1;
	if (!inlet->porter)
		return shm_frame_receive_given(inlet->socket, frame, fd);
	while (result == 0) {
		if (!inlet->asked) {
			result = shm_frame_receive(inlet->socket, frame);
			if (result != -EPERM)
				return result;
			result = ask(inlet);
		}
		if (inlet->asked)
			result = answer_receive(inlet, frame, fd);
	}
	return result;
}

void shm_inlet_break(struct shm_inlet *inlet)
{
	if (inlet->socket < 0)
		return;
	if (inlet->epoll >= 0)
		close(inlet->epoll);
	shutdown(inlet->socket, SHUT_RDWR); /* the publisher sees the end now */
	close(inlet->socket);               /* Z3: before the porter ends */
	inlet->socket = inlet->epoll = -1;
}

void shm_inlet_settle(struct shm_inlet *inlet)
{
	shm_inlet_break(inlet);
	shm_porter_settle(inlet->porter);
}

void shm_inlet_close(struct shm_inlet *inlet)
{
	shm_inlet_break(inlet);
	shm_porter_end(inlet->porter);
	inlet->porter = NULL;
}
