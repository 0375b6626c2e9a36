/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A program with an event loop of its own, in which no call of librblk blocks: it opens a volume,
 * reads the first block, writes the same bytes back, makes them durable, and closes.
 *
 *   cc event_loop.c $(pkg-config --cflags --libs rblk) -o event_loop
 *   ./event_loop rblk+tcp://127.0.0.1/disk
 *
 * Each callback starts the next step. All callbacks come from rblk_poll(), which the loop calls.
 */
#include <errno.h>
#include <poll.h>
#include <rblk.h>
#include <stdio.h>
#include <string.h>

struct program {
	struct rblk_session *session;
	struct rblk_volume *volume; /* NULL: not open */
	void *block;		    /* registered memory, freed with the session */
	size_t bytes;
	int status; /* the program's exit status */
};

/* Begin to disconnect. The loop ends when rblk_poll() says that it is done. */
static void program_stop(struct program *program)
{
	rblk_session_stop(program->session);
}

/* A step could not be started, or the target refused to open: the session has the words. */
static void step_refused(struct program *program)
{
	fprintf(stderr, "event_loop: %s\n", rblk_session_error(program->session));
	program->status = 1;
	program_stop(program);
}

/* True: a command has ended well. */
static bool step_done(struct program *program, const char *what, const struct rblk_result *result)
{
	/* The loss of the session is an event, too, which has the words. */
	if (result->error && rblk_session_state(program->session) == RBLK_SESSION_READY) {
		fprintf(stderr, "event_loop: %s: %s\n", what, strerror(-result->error));
		program->status = 1;
		program_stop(program);
	}
	return !result->error;
}

/* -- the steps, first to last ------------------------------------------------------------------ */

static void on_opened(void *arg, struct rblk_volume *volume, int error);
static void on_read(void *arg, const struct rblk_result *result);
static void on_written(void *arg, const struct rblk_result *result);
static void on_flushed(void *arg, const struct rblk_result *result);
static void on_closed(void *arg, struct rblk_volume *volume, int error);

static void on_event(void *arg, struct rblk_session *session,
		     const struct rblk_session_event *event)
{
	struct program *program = arg;

	switch (event->type) {
	case RBLK_SESSION_EVENT_READY:
		if (rblk_volume_open_start(session, NULL, 0, on_opened, program))
			step_refused(program);
		break;
	case RBLK_SESSION_EVENT_FAILED:
		if (event->error == -ECANCELED) /* by rblk_session_stop() */
			break;
		fprintf(stderr, "event_loop: %s\n", rblk_session_error(session));
		program->status = 1;
		break;
	case RBLK_SESSION_EVENT_DRAINING:
		fprintf(stderr, "event_loop: the target shuts down\n");
		break;
	default: /* lists and volumes change while others work on them; later versions tell more */
		break;
	}
}

static void on_opened(void *arg, struct rblk_volume *volume, int error)
{
	struct program *program = arg;
	const struct rblk_volume_info *info;

	if (error) {
		if (rblk_session_state(program->session) == RBLK_SESSION_READY)
			step_refused(program);
		return;
	}
	info = rblk_volume_info(volume);
	printf("%s: %llu bytes in blocks of %u\n", info->name, (unsigned long long)info->bytes,
	       info->block_bytes);
	program->volume = volume;
	program->bytes = info->block_bytes;
	program->block = rblk_buffer_alloc(program->session, program->bytes);
	if (!program->block ||
	    rblk_read(volume, program->block, program->bytes, 0, 0, on_read, program))
		step_refused(program);
}

static void on_read(void *arg, const struct rblk_result *result)
{
	struct program *program = arg;

	if (!step_done(program, "read", result))
		return;
	if (rblk_write(program->volume, program->block, program->bytes, 0, 0, on_written, program))
		step_refused(program);
}

static void on_written(void *arg, const struct rblk_result *result)
{
	struct program *program = arg;

	if (!step_done(program, "write", result))
		return;
	if (!rblk_volume_info(program->volume)->can_flush)
		on_flushed(program, result); /* memory: nothing in it is ever durable */
	else if (rblk_flush(program->volume, on_flushed, program))
		step_refused(program);
}

static void on_flushed(void *arg, const struct rblk_result *result)
{
	struct program *program = arg;

	if (!step_done(program, "flush", result))
		return;
	printf("the first block is as it was\n");
	if (rblk_volume_close_start(program->volume, on_closed, program))
		step_refused(program);
}

static void on_closed(void *arg, struct rblk_volume *volume, int error)
{
	struct program *program = arg;

	(void)error; /* the session ends now, and with it whatever the target has left of the volume */
	program->volume = volume;
	program_stop(program);
}

/* -- the loop ---------------------------------------------------------------------------------- */

static void run(struct program *program)
{
	struct pollfd fd = {.fd = rblk_fd(program->session), .events = POLLIN};
	int count;

	/* An error: the session is over, and nothing is outstanding any more. */
	while ((count = rblk_poll(program->session, 0)) >= 0) {
		if (count > 0 || rblk_arm(program->session))
			continue; /* there may be more */
		/* The program's own descriptors would stand here as well, and its timers. */
		poll(&fd, 1, rblk_timeout_ms(program->session));
	}
}

int main(int argc, char **argv)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;
	struct program program = {.status = 0};
	char error[RBLK_ERROR_BYTES];

	if (argc != 2) {
		fprintf(stderr, "usage: event_loop URI\n");
		return 2;
	}
	options.connect_timeout_ms = 5000;
	options.give_up_ms = 5000; /* after so long without the target, commands fail */
	program.session = rblk_session_start(argv[1], &options, error);
	if (!program.session) {
		fprintf(stderr, "event_loop: %s\n", error);
		return 1;
	}
	rblk_session_on_event(program.session, on_event, &program);
	run(&program);
	rblk_session_close(program.session); /* does not wait: the session is over already */
	return program.status;
}
