/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sessions in the model: their connections at the target, and when what was lost with them is over (F5, F6).
 */
#include "tests/sim/model_impl.h"

#include <string.h>

#define SESSIONS_MAX 4096u

static struct {
	unsigned int conns, open; /* at the target; of these, not ended by it */
	uint64_t closed;	  /* when the last of them was */
} sessions[SESSIONS_MAX];

void sim_sessions_reset(void)
{
	memset(sessions, 0, sizeof(sessions));
}

/* What its initiator sends again by itself may be sent now; nothing of that is over. */
static void session_sends_again(uint32_t session)
{
	struct model_command *command;
	struct sim_volume *volume;

	for (volume = sim_model_volumes(); volume; volume = volume->next)
		TAILQ_FOREACH(command, &volume->commands, link)
			if (command->command.session == session && command->command.unseen && !command->lost)
				sim_model_again(&command->command, true);
}

void sim_model_conn_made(uint32_t session)
{
	sessions[session % SESSIONS_MAX].conns++;
	sessions[session % SESSIONS_MAX].open++;
	session_sends_again(session);
}

bool sim_model_has_conns(uint32_t session)
{
	return sessions[session % SESSIONS_MAX].conns;
}

void sim_model_conn_ended(uint32_t session)
{
	sessions[session % SESSIONS_MAX].open--;
	sessions[session % SESSIONS_MAX].closed = sim_model_now();
}

/* Nothing more can come of it; its application may know that it is lost, or not yet. */
static void command_fenced(struct model_command *command)
{
	command->process_lost = false;
	command->over = sim_model_now();
	if (command->lost)
		sim_model_over(command);
}

/* Commands of the session that were lost, or will be found to be, with its connections. */
static void session_fenced(uint32_t session, bool killed)
{
	struct model_command *command, *following;
	struct sim_volume *volume;

	for (volume = sim_model_volumes(); volume; volume = volume->next)
		for (command = TAILQ_FIRST(&volume->commands); command; command = following) {
			following = TAILQ_NEXT(command, link);
			if (command->command.session != session || !sim_command_writes(&command->command))
				continue;
			/* A killed process's I/O goes on until its successor is let in (F6). */
			if (killed && volume->durable)
				command->process_lost = true;
			else
				command_fenced(command);
		}
}

void sim_model_conn_gone(uint32_t session, bool killed)
{
	if (--sessions[session % SESSIONS_MAX].conns == 0 || killed)
		session_fenced(session, killed);
}

void sim_model_goes_on(uint32_t session, struct sim_volume *volume)
{
	struct model_command *command, *following;

	for (command = TAILQ_FIRST(&volume->commands); command; command = following) {
		following = TAILQ_NEXT(command, link);
		if (command->command.session == session && sim_command_writes(&command->command) && command->lost)
			command_fenced(command);
	}
}

void sim_model_served(struct sim_volume *volume)
{
	struct model_command *command, *following;

	for (command = TAILQ_FIRST(&volume->commands); command; command = following) {
		following = TAILQ_NEXT(command, link);
		if (command->process_lost)
			command_fenced(command);
	}
}

/* Connections of a session that had all ended before have left nothing with the store. */
void sim_model_inherited(struct sim_volume *volume, uint64_t since)
{
	struct model_command *command, *following;

	for (command = TAILQ_FIRST(&volume->commands); command; command = following) {
		uint32_t session = command->command.session % SESSIONS_MAX;

		following = TAILQ_NEXT(command, link);
		if (session && sim_command_writes(&command->command) && sessions[session].conns &&
		    !sessions[session].open && sessions[session].closed < since)
			command_fenced(command);
	}
}
