/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Gateways of one storage engine (F5 and F10 with Ceph below, rblkd-rbd(7)) as a model that spin searches exhaustively:
 * up to three gateways, one initiator with one session, one block. The initiator writes generation 1, 2, ... of the
 * block, each when the one before was acknowledged, at the gateway where it has the volume open. It goes to any other,
 * or comes back, when it likes; each time in a new epoch, in which it sends again what was not acknowledged.
 *
 * The engine blocklists clients in maps, each with a number of its own. It judges an operation by the map that it has
 * when it carries it out. That is at least the one that the operation's client had, and it gets newer ones at any time.
 * Each life of a gateway is a client. What a client has sent arrives when it likes, also when its process is gone.
 *
 * A gateway first enters its key in a register that all see, and serves then. OPEN reads the register, and asks all
 * others to end what they have of the session's older epochs; whoever is silent is blocklisted, and only then loses its
 * key. At last it waits for the newest map, and is answered. There are no clocks, so any gateway may be taken for
 * silent: it is dead, it was stopped and goes on later, it is partitioned, it has lost its watch, or is slow. One that
 * finds that it was shut out goes on as a new client. One that ends in good order lets go what it has, and then removes
 * its key.
 *
 * Held against it: nothing older than what was acknowledged lands; and when the faults are used up, every generation
 * gets written. tests/model/check searches it as it stands, and once with each of these, which must be found out:
 *   NO_WAIT_CALLER   an OPEN that has shut out somebody is answered without waiting for the map
 *   NO_WAIT_THIRD    an OPEN that has shut out nobody is
 *   WATCHERS         who watches is asked, not who is in the register
 *   NOT_SHUT_OUT     who is silent loses its key, and is not blocklisted
 *   KEY_FIRST        it loses its key before it is blocklisted
 *   EARLY_ANSWER     a gateway says that it has ended the session before the engine has let go what it had
 *   HALF_ENDED       it waits for that, and leaves the connection as it is
 *   EARLY_LEAVE      one that ends removes its key before that
 *   UNREGISTERED     a gateway serves before its key is in the register
 *   PREDECESSOR      one that starts removes the key of its own former life, and does not shut that out
 *   GOES_ON          one that was shut out goes on with its sessions as a new client
 *   EXPIRED          the blocklist's entry ends while something of its client is on the way, or the client lives
 * (What one client has asked of the engine is carried out in that order. What PREEMPT promises to others is not in it.)
 */
#include "history.pml"

#define GENERATIONS 2
#ifndef GATEWAYS
#define GATEWAYS 3
#endif
/* How often each may happen; tests/model/check says how many of which. */
#ifndef MOVES
#define MOVES 2    /* the initiator goes elsewhere unasked */
#endif
#ifndef KILLS
#define KILLS 0    /* of gateways */
#endif
#ifndef ENDS
#define ENDS 0     /* of gateways, in good order */
#endif
#ifndef SHOTS
#define SHOTS 1    /* gateways that live and are taken for silent */
#endif
#ifndef EXPIRIES
#define EXPIRIES 0 /* entries of the blocklist that end */
#endif

#define CLIENTS (GATEWAYS + KILLS + ENDS + SHOTS) /* lives of gateways */
#define NOBODY 255
#define BIT(c) (1 << (c))

mtype = { NONE, SENT, DONE, REFUSED };		/* a client's write; DONE, REFUSED: and it knows that */
mtype = { DOWN, ENTERING, SERVING, LEAVING };	/* a gateway */

typedef client_state {
	mtype write = NONE;
	byte generation, epoch;	/* of the write: its content; the session's when the initiator sent it */
	byte map;		/* that the client had when it sent it */
	byte blocked_from;	/* in maps from this one on; 0: in none */
	byte blocked_until;	/* but not from this one on; 0: for ever */
};

typedef gateway_state {
	mtype state = SERVING;
	byte client;	/* of this life, or the last one */
	byte map;	/* that it has */
	byte epoch;	/* of the session; 0: it has none */
	byte received;	/* a write that it has, and has not given to the engine: the generation; 0: none */
	bool open;	/* OPEN is answered */
	bool opening;	/* it is under way: */
	bool has_asked, has_shot;
	byte asked;	/* who has not answered yet: a bit for each client */
};

client_state client[CLIENTS];
gateway_state gateway[GATEWAYS];
byte next_client = GATEWAYS;
byte keys, watchers;		/* the register, and who watches it: a bit for each client */
byte newest, engine_map;	/* the number of the newest map, and of the engine's */
byte disk, acknowledged;

/* The initiator's. */
byte place = NOBODY;		/* the gateway where it is, or wants to be */
byte epoch, generation = 1;
bool outstanding;
byte request[GATEWAYS];		/* a login on its way there: its epoch; 0: none */

/* Faults that are left. */
byte kills = KILLS, ends = ENDS, shots = SHOTS, expiries = EXPIRIES;

/* -- the engine and its maps ----------------------------------------------------------------------- */

#define IS_BLOCKED(c, number) \
	(client[c].blocked_from != 0 && (number) >= client[c].blocked_from && \
	 (client[c].blocked_until == 0 || (number) < client[c].blocked_until))

#define LIVES_IN(c, g) (gateway[g].client == c && gateway[g].state != DOWN)
#if GATEWAYS == 2
#define LIVES(c) (LIVES_IN(c, 0) || LIVES_IN(c, 1))
#else
#define LIVES(c) (LIVES_IN(c, 0) || LIVES_IN(c, 1) || LIVES_IN(c, 2))
#endif

/* What a gateway's machine has sent is delivered until it was started anew. */
#ifdef EXPIRED
#define MAY_EXPIRE(c) true
#else
#define MAY_EXPIRE(c) (client[c].write != SENT && !LIVES(c))
#endif

inline carry_out(c) {
	if
	:: client[c].map > engine_map -> engine_map = client[c].map
	:: else
	fi;
	if
	:: IS_BLOCKED(c, engine_map) -> client[c].write = REFUSED
	:: else ->
		assert(client[c].generation >= acknowledged);
		disk = client[c].generation;
		client[c].write = DONE
	fi;
	client[c].map = 0;
	client[c].generation = 0
}

proctype Client(byte c) {
end:	do
	:: atomic { client[c].write == SENT -> carry_out(c) }
	:: atomic { IS_BLOCKED(c, newest) && expiries > 0 && MAY_EXPIRE(c) ->
		    expiries--; newest++; client[c].blocked_until = newest }
	od
}

proctype Engine() {
end:	do
	:: atomic { engine_map < newest -> engine_map++ }
	od
}

/* -- a gateway ------------------------------------------------------------------------------------- */

#define ME gateway[g].client
#define QUIET(g) (client[gateway[g].client].write == NONE)

/* Nothing that has not begun is carried out any more. */
inline end_session(g) {
	gateway[g].epoch = 0;
	gateway[g].received = 0;
	gateway[g].open = false;
	end_opening(g)
}

inline end_opening(g) {
	gateway[g].opening = false;
	gateway[g].has_asked = false;
	gateway[g].has_shot = false;
	gateway[g].asked = 0
}

inline enter(g) {
	keys = keys | BIT(ME);
	watchers = watchers | BIT(ME);
	gateway[g].state = SERVING
}

inline forget_watch(g) {
	watchers = watchers & ~BIT(ME)
}

/* A new life. A fresh client may have an old map. */
inline begin(g) {
#ifdef PREDECESSOR
	keys = keys & ~BIT(ME);
#endif
	ME = next_client;
	next_client++;
	gateway[g].map = 0;
#ifdef UNREGISTERED
	gateway[g].state = SERVING
#else
	gateway[g].state = ENTERING
#endif
}

#ifdef GOES_ON
#define GOES_ON_WITH(g) QUIET(g)
#else
#define GOES_ON_WITH(g) false
#endif

inline heal(g) {
	forget_watch(g);
	if
	:: GOES_ON_WITH(g) -> begin(g); enter(g)
	:: else -> end_session(g); begin(g)
	fi
}

inline take_login(g) {
	end_session(g);
	gateway[g].epoch = request[g];
	gateway[g].opening = true;
	request[g] = 0
}

#ifdef WATCHERS
#define REGISTERED watchers
#else
#define REGISTERED keys
#endif

inline ask(g) {
	gateway[g].asked = REGISTERED & ~BIT(ME);
	gateway[g].has_asked = true
}

/* The newest map is waited for, or not. */
#if defined(NO_WAIT_CALLER)
#define WAITS(g) (!gateway[g].has_shot)
#elif defined(NO_WAIT_THIRD)
#define WAITS(g) (gateway[g].has_shot)
#else
#define WAITS(g) true
#endif

inline answer_open(g) {
	if
	:: WAITS(g) -> gateway[g].map = newest
	:: else
	fi;
	gateway[g].open = true;
	end_opening(g)
}

/* Of this session, by the connection of this epoch. */
#define IS_CONNECTED(g) (place == g && gateway[g].state == SERVING && gateway[g].open && gateway[g].epoch == epoch)

inline forget_write(g) {
	client[ME].write = NONE;
	client[ME].epoch = 0
}

inline hear_write(g) {
	if
	:: client[ME].write == DONE && IS_CONNECTED(g) && outstanding && client[ME].epoch == epoch ->
		assert(disk == generation);
		acknowledged = generation;
		generation++;
		outstanding = false
	:: else
	fi;
	forget_write(g)
}

inline send_write(g) {
	client[ME].write = SENT;
	client[ME].generation = gateway[g].received;
	client[ME].epoch = gateway[g].epoch;
	client[ME].map = gateway[g].map;
	gateway[g].received = 0
}

/* By another gateway. */
#define IS_ASKED(g, by) (gateway[by].opening && (gateway[by].asked & BIT(gateway[g].client)) != 0)
#ifdef HALF_ENDED
#define HAS_ENDED(g, by) true
#else
#define HAS_ENDED(g, by) (gateway[g].epoch == 0 || gateway[g].epoch > gateway[by].epoch)
#endif
#ifdef EARLY_ANSWER
#define HAS_LET_GO(g) true
#else
#define HAS_LET_GO(g) QUIET(g)
#endif

#define ANSWERS(g, by) \
	:: atomic { IS_ASKED(g, by) && gateway[g].state != DOWN && !HAS_ENDED(g, by) -> end_session(g) } \
	:: atomic { IS_ASKED(g, by) && (gateway[g].state == SERVING || gateway[g].state == LEAVING) && \
		    HAS_ENDED(g, by) && HAS_LET_GO(g) -> \
		    gateway[by].asked = gateway[by].asked & ~BIT(gateway[g].client) }

/* It has not answered, and is shut out: in two steps, between which the gateway that does it may be killed. */
inline block(c, by) {
	if
	:: LIVES(c) -> shots--
	:: else
	fi;
	newest++;
	client[c].blocked_from = newest;
	client[c].blocked_until = 0;
	gateway[by].has_shot = true
}

#define IS_SILENT(c, by) \
	(gateway[by].state == SERVING && gateway[by].opening && (gateway[by].asked & BIT(c)) != 0 && \
	 (shots > 0 || !LIVES(c)))

#if defined(NOT_SHUT_OUT)
#define SHOOTS(by, c) \
	:: atomic { IS_SILENT(c, by) -> keys = keys & ~BIT(c); gateway[by].asked = gateway[by].asked & ~BIT(c) }
#elif defined(KEY_FIRST)
#define SHOOTS(by, c) \
	:: atomic { IS_SILENT(c, by) && (keys & BIT(c)) != 0 -> keys = keys & ~BIT(c) } \
	:: atomic { IS_SILENT(c, by) && (keys & BIT(c)) == 0 -> block(c, by); \
		    gateway[by].asked = gateway[by].asked & ~BIT(c) }
#else
#define SHOOTS(by, c) \
	:: atomic { IS_SILENT(c, by) && !IS_BLOCKED(c, newest) -> block(c, by) } \
	:: atomic { gateway[by].state == SERVING && (gateway[by].asked & BIT(c)) != 0 && IS_BLOCKED(c, newest) -> \
		    keys = keys & ~BIT(c); gateway[by].asked = gateway[by].asked & ~BIT(c) }
#endif

#ifdef EARLY_LEAVE
#define MAY_LEAVE(g) true
#else
#define MAY_LEAVE(g) QUIET(g)
#endif

#define NEXT(g) ((g + 1) % GATEWAYS)
#define LAST(g) ((g + GATEWAYS - 1) % GATEWAYS)

proctype Gateway(byte g) {
end:	do
	:: atomic { gateway[g].state == DOWN && next_client < CLIENTS -> begin(g) }
	:: atomic { (gateway[g].state == ENTERING || gateway[g].state == SERVING) && (keys & BIT(ME)) == 0 &&
		    !IS_BLOCKED(ME, newest) -> enter(g) }
	/* A session. */
	:: atomic { gateway[g].state == SERVING && request[g] > gateway[g].epoch -> take_login(g) }
	:: atomic { gateway[g].opening && !gateway[g].has_asked -> ask(g) }
	:: atomic { gateway[g].has_asked && gateway[g].asked == 0 && QUIET(g) -> answer_open(g) }
	:: atomic { gateway[g].received != 0 && QUIET(g) -> send_write(g) }
	:: atomic { gateway[g].state != DOWN && client[ME].write == DONE -> hear_write(g) }
	:: atomic { gateway[g].state != DOWN && client[ME].write == REFUSED ->
		    end_session(g); forget_write(g); heal(g) }
	ANSWERS(g, NEXT(g))
#if GATEWAYS == 3
	ANSWERS(g, LAST(g))
#endif
	/* It is shut out, killed, or ends in good order. */
	:: atomic { gateway[g].state != DOWN && IS_BLOCKED(ME, newest) && next_client < CLIENTS -> heal(g) }
	:: atomic { gateway[g].state == SERVING && kills > 0 ->
		    kills--; forget_watch(g); end_session(g); gateway[g].map = 0; gateway[g].state = DOWN }
	:: atomic { gateway[g].state == SERVING && ends > 0 -> ends--; end_session(g); gateway[g].state = LEAVING }
	:: atomic { gateway[g].state == LEAVING && MAY_LEAVE(g) ->
		    keys = keys & ~BIT(ME); forget_watch(g); gateway[g].map = 0; gateway[g].state = DOWN }
	od
}

proctype Shooter(byte c) {
end:	do
	SHOOTS(0, c)
	SHOOTS(1, c)
#if GATEWAYS == 3
	SHOOTS(2, c)
#endif
	od
}

/* -- the initiator --------------------------------------------------------------------------------- */

inline leave() {
	place = NOBODY;
	outstanding = false /* it is sent again */
}

#define ACTIONS(g) \
	:: atomic { IS_CONNECTED(g) && generation <= GENERATIONS && !outstanding && gateway[g].received == 0 -> \
		    gateway[g].received = generation; outstanding = true } \
	:: atomic { place == g && moves > 0 && generation <= GENERATIONS -> moves--; leave() } \
	:: atomic { place == g && \
		    (gateway[g].state != SERVING || request[g] != epoch && gateway[g].epoch != epoch) -> leave() } \
	:: atomic { place == NOBODY && gateway[g].state == SERVING && generation <= GENERATIONS -> \
		    epoch++; request[g] = epoch; place = g }

proctype Initiator() {
	byte moves = MOVES;

	do
	ACTIONS(0)
	ACTIONS(1)
#if GATEWAYS == 3
	ACTIONS(2)
#endif
	:: atomic { generation > GENERATIONS -> break }
	od;
	assert(disk == GENERATIONS)
}

init {
	byte i;

	atomic {
		for (i : 0 .. GATEWAYS - 1) {
			gateway[i].client = i;
			keys = keys | BIT(i);
			watchers = watchers | BIT(i);
			run Gateway(i)
		};
		for (i : 0 .. CLIENTS - 1) {
			run Client(i);
			run Shooter(i)
		};
		i = 0;
		run Engine();
		run Initiator()
	}
}
