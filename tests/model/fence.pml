/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sessions, incarnations and fencing (F5 and F6 of the specification's section 8, the states of its section
 * 10) as a model that spin searches exhaustively: one initiator with two queues, one target, one block.
 * The initiator writes generation 1, 2, ... of the block, each when the one before was acknowledged, over
 * whatever connection it has, and sends a write again whose connection was lost. Connections break at any
 * time and the target notices late; logins are given up, and arrive after their successors; the initiator
 * renews its session when it likes; the target is killed with writes in its disk, or ends a session of its
 * own accord. A login is accepted as soon as what it succeeds is drained. What the disk still has of that lingers:
 * FENCE, which any connection carries, waits for it, and in a new epoch OPEN. With MORE, which takes more time
 * to search, it is also the target that notices a loss first, answers and logins are lost on their way, every lost
 * connection is fenced, and queue 1 is connected while queue 0 is not.
 *
 * Held against it: what was acknowledged is on the disk, and nothing older lands on it afterwards; only
 * drained queues are succeeded; and when the faults are used up, every generation gets written (spin finds
 * an initiator that is stuck as an invalid end state).
 *
 * tests/model/check searches it as it stands, and once with each of these, which break one rule each and
 * must be found out:
 *   FENCE_AT_ONCE    FENCE is answered before the storage I/O of the fenced queue is over
 *   FENCE_FORGETS_LINGERING  it waits for that of the connection that is there, not of those before it
 *   FENCE_IN_PART    FENCE waits for what is in the disk, and leaves the connection as it is
 *   ACCEPT_IS_FENCE  the acceptance of a newer incarnation counts as the fence of the older one
 *   STALE_ANSWER     the answer to a FENCE counts also for a later loss of the same queue
 *   EARLY_RETRY      the initiator sends again before the fence is acknowledged
 *   OPEN_AT_ONCE     OPEN is answered before the storage I/O of the older epochs is over
 *   EARLY_NAME       the initiator sends in a new epoch before OPEN is answered
 *   NO_LOCK          a started target serves before its predecessor's storage I/O is over (F6)
 * tests/model/histories has it accept what the simulator has seen librblk and rblkd do (history.pml).
 * (Without RBLK_FEATURE_VOLUME_FENCE acceptance waits for the storage, too, and counts as the fence. That is not in it.)
 * (That a fenced queue's commands which had not begun are dropped makes the fence prompt, not safe: it
 * waits for whatever there is. Reads are not in it, because they wait for no fence: whenever one is carried out, the
 * disk has what was acknowledged, as land() claims, and its answer comes by the connection that it was sent on last.)
 */
#include "history.pml"

/* What the simulator can see: the queue, then: */
#define E_LOGIN 1		/* epoch, incarnation: the first of this queue in the epoch that may be accepted */
#define E_LOGIN_AGAIN 2	/* epoch, incarnation: another was accepted before */
#define E_ACCEPT 3	/* epoch, incarnation: by the target */
#define E_UP 4		/* the initiator hears that */
#define E_OVER 5		/* it hears another answer, or none */
#define E_RENEW 6		/* epoch: it begins a new one */
#define E_SENT 7		/* generation: a write goes */
#define E_STORE 8		/* generation: the target gives it to its disk */
#define E_LAND 9		/* generation, on the disk (queue 0) */
#define E_REPLY 10	/* the target answers the write */
#define E_HEARD 11	/* generation: the initiator hears that answer */
#define E_LOST 12		/* incarnation: the initiator loses the connection */
#define E_FENCE_SENT 13	/* incarnation: to be fenced, of this queue; by which queue */
#define E_FENCE_REPLY 14	/* incarnation: up to which the target has fenced this queue; by which queue it says so */
#define E_FENCE_HEARD 15	/* incarnation: up to which the initiator hears that; by which queue */
#define E_KILL 16		/* the target's process (queue 0) */
#define E_SERVE 17	/* its successor */
#define E_OPEN_SENT 18	/* the volume is to be opened (queue 0) */
#define E_OPEN_REPLY 19	/* the target has opened it (queue 0) */
#define E_OPEN_HEARD 20	/* the initiator hears that (queue 0) */

#define QUEUES 2
#ifdef HISTORY
#define GENERATIONS 255
#define INCARNATIONS 255
#define LOSSES 255
#define KILLS 255
#define FORGETS 255
#define GIVE_UPS 255
#define MORE
#else
#define GENERATIONS 2
#define INCARNATIONS 12
#endif
/* How often each may happen; tests/model/check says how many of which, to keep the search bounded. */
#ifndef LOSSES
#define LOSSES 1   /* connections that break */
#endif
#ifndef KILLS
#define KILLS 0    /* of the target */
#endif
#ifndef FORGETS
#define FORGETS 0  /* sessions that it forgets */
#endif
#ifndef GIVE_UPS
#define GIVE_UPS 0 /* logins that the initiator gives up */
#endif
#ifndef RENEWALS
#define RENEWALS 0 /* epochs that it raises unasked */
#endif

/* Of the faults that are left; a history brings as many as it does. */
#ifdef HISTORY
#define SPEND(faults) skip
#else
#define SPEND(faults) faults--
#endif

#define OTHER(q) (1 - (q))

mtype = { NONE, LIVE, ENDING };			/* a queue at the target; NONE: drained, or never was */
mtype = { EMPTY, RECEIVED, STORING, LANDED };	/* the command of a queue */
mtype = { WRITE, FENCE_OWN, FENCE_OTHER, OPEN }; /* to the target; FENCE of the queue that carries it, or of the other */
mtype = { WRITTEN, OWN_FENCED, OTHER_FENCED, OPENED, ACCEPTED, STALE, NO_SESSION }; /* to the initiator */

typedef queue {
	mtype state = NONE;
	byte incarnation;	/* of the connection that is there; 0: of an older epoch */
	byte highest;		/* accepted or fenced: what is not above it is stale */
	mtype command = EMPTY;
	byte generation;
	byte login;		/* that waits for this queue's end: its incarnation; 0: none */
	byte login_epoch;
	bool login_had_one;
	byte fence_own;		/* FENCE of this queue that came by its connection waits: up to this incarnation; 0: none */
	byte fence_other;	/* likewise, of the other queue */
};

/* The target process. All of it is gone when it is killed. */
bool running = true, known;
byte epoch;			/* of the session, while it is known or something is left of it; 0: there is none */
bool opening;			/* OPEN waits, by the connection of queue 0 */
queue target[QUEUES];

/* What the disk still has of a connection that has ended; one for each queue, more wait for room. */
typedef lingerer {
	byte generation;	/* 0: nothing */
	byte incarnation;	/* 0: nothing, or of an older epoch; KILLED: of a process that is gone */
};
lingerer lingers[QUEUES];
#define KILLED 255

/* The disk: survives everything. */
byte disk, acknowledged;

/* What is on its way: kind, epoch, incarnation, and generation, or the incarnation to fence. */
chan wire[QUEUES] = [2] of { mtype, byte, byte, byte };
chan cm[QUEUES] = [3] of { byte, byte, bool };	/* epoch, incarnation, has had one before */
chan back[QUEUES] = [4] of { mtype, byte, byte, byte }; /* kind, epoch, incarnation, and what it fenced */

inline land(content) {
	SAW(E_LAND, 0, content, 0)
	CLAIM(content >= acknowledged);
	disk = content
}

/* -- the target -------------------------------------------------------------------------------- */

inline answer_with(who, what, in_epoch, to, up_to) {
	/* Without room the peer has gone: the channel holds more than one connection can have. */
	if
	:: nfull(back[who]) -> back[who] ! what, in_epoch, to, up_to
	:: full(back[who])
	fi
}

#define answer(who, what, in_epoch, to) answer_with(who, what, in_epoch, to, 0)

/* Its queue pair is in ERR. What has not begun is dropped, and nobody can be answered by it. */
inline end_queue(q) {
	if
	:: target[q].state == LIVE ->
		target[q].state = ENDING;
		target[q].fence_own = 0;
		target[q].fence_other = 0;
		if
		:: q == 0 -> opening = false
		:: else
		fi;
		if
		:: target[q].command == RECEIVED -> target[q].command = EMPTY; target[q].generation = 0
		:: else
		fi
	:: else
	fi
}

/* The disk goes on with what it has of the queue; `incarnation`: as which. */
inline leave_behind(q, its) {
	if
	:: target[q].command == STORING ->
		lingers[q].generation = target[q].generation;
		lingers[q].incarnation = its
	:: else
	fi;
	target[q].command = EMPTY;
	target[q].generation = 0;
	target[q].state = NONE;
	target[q].incarnation = 0
}

/* Or the place is taken. */
#define MAY_LEAVE(q) (target[q].command == EMPTY || target[q].command == STORING && lingers[q].generation == 0)

/* A higher epoch has come, or it is the target's own decision: nobody joins the session any more. */
inline end_session() {
	known = false;
	end_queue(0);
	end_queue(1);
	target[0].highest = 0;
	target[1].highest = 0;
	target[0].incarnation = 0;
	target[1].incarnation = 0;
	lingers[0].incarnation = 0;
	lingers[1].incarnation = 0
}

#ifdef HISTORY
#define MAY_BE_KILLED true
#define MAY_FORGET (ALL_DRAINED && target[0].login == 0 && target[1].login == 0) /* nobody kicks it */
#else
#define MAY_BE_KILLED (epoch != 0) /* else it is no event for anybody */
#define MAY_FORGET true
#endif
#ifdef NO_LOCK
#define MAY_SERVE true
#else
#define MAY_SERVE (lingers[0].generation == 0 && lingers[1].generation == 0)
#endif

/* The new incarnation has the queue; what older ones have left in the disk lingers. */
inline accept(place, its_epoch, its) {
	CLAIM(target[place].state == NONE && target[place].command == EMPTY);
	SAW(E_ACCEPT, place, its_epoch, its)
	target[place].state = LIVE;
	target[place].incarnation = its;
	target[place].highest = its;
	answer(place, ACCEPTED, its_epoch, its)
}

/* One login waits for each queue: a later one takes the place of an earlier one. */
inline wait_login(place, its_epoch, its, its_had_one) {
	if
	:: target[place].login_epoch > its_epoch ||
	   (target[place].login_epoch == its_epoch && target[place].login >= its) ->
		answer(place, STALE, its_epoch, its)
	:: else ->
		target[place].login = its;
		target[place].login_epoch = its_epoch;
		target[place].login_had_one = its_had_one
	fi
}

#define ALL_DRAINED (target[0].state == NONE && target[1].state == NONE)

inline judge(q, e, i, had_one) {
	if
	:: known && e > epoch -> end_session() /* whichever queue says so: the old life is over */
	:: else
	fi;
	if
	:: e < epoch || known && e == epoch && i <= target[q].highest -> answer(q, STALE, e, i)
	:: !known && e >= epoch && (q != 0 || had_one || e == epoch) -> answer(q, NO_SESSION, e, i)
	:: !known && e > epoch && q == 0 && !had_one ->
		if
		:: ALL_DRAINED -> known = true; epoch = e; accept(q, e, i)
		:: else -> wait_login(q, e, i, had_one)
		fi
	:: known && e == epoch && i > target[q].highest ->
		if
		:: target[q].state == NONE -> accept(q, e, i)
		:: else -> end_queue(q); wait_login(q, e, i, had_one)
		fi
	fi
}

/* Judged again, for nothing stands in its way any more. */
inline resume_login(q) {
	e = target[q].login_epoch;
	i = target[q].login;
	had_one = target[q].login_had_one;
	target[q].login = 0;
	target[q].login_epoch = 0;
	target[q].login_had_one = false;
	judge(q, e, i, had_one);
	e = 0; i = 0; had_one = false
}

/* No command of the queue up to this incarnation comes any more. */
inline fence(q, last) {
	if
	:: target[q].highest < last -> target[q].highest = last
	:: else
	fi;
#ifndef FENCE_IN_PART
	if
	:: target[q].incarnation <= last -> end_queue(q)
	:: else
	fi
#endif
}

inline receive(q) {
	wire[q] ? kind, e, i, argument;
	if
	:: target[q].state != LIVE || target[q].incarnation != i || epoch != e || !known /* no such QP */
	:: else ->
		if
		:: kind == WRITE ->
			CLAIM(target[q].command == EMPTY);
			target[q].command = RECEIVED;
			target[q].generation = argument
		:: kind == FENCE_OWN -> fence(q, argument); target[q].fence_own = argument
		:: kind == FENCE_OTHER -> fence(OTHER(q), argument); target[q].fence_other = argument
		:: kind == OPEN -> opening = true
		fi
	fi;
	kind = 0; e = 0; i = 0; argument = 0
}

/* The process is killed. */
inline kill_queue(q) {
	lingers[q].incarnation = (lingers[q].generation != 0 -> KILLED : 0);
	end_queue(q);
	leave_behind(q, KILLED);
	target[q].highest = 0;
	if
	:: target[q].login != 0 -> answer(q, STALE, target[q].login_epoch, target[q].login)
	:: else
	fi;
	target[q].login = 0;
	target[q].login_epoch = 0;
	target[q].login_had_one = false
}

inline written(q) {
	if
	:: target[q].state == LIVE ->
		SAW(E_REPLY, q, 0, 0)
		answer(q, WRITTEN, epoch, target[q].incarnation)
	:: else
	fi;
	target[q].command = EMPTY;
	target[q].generation = 0
}

/* There FENCE of all and FENCE of the volume are under way together, and are one here. Each answer says up to which
 * incarnation. */
#ifdef HISTORY
#define ASKED(last) EVENT(2)
#define STILL_WAITS(last) last
#else
#define ASKED(last) last
#define STILL_WAITS(last) 0
#endif
#define MAY_SAY_FENCED(whom, last) (last != 0 && ASKED(last) <= last && IS_FENCED(whom, ASKED(last)))

inline fenced(whom, by, what, waits) {
	argument = ASKED(waits);
	SAW(E_FENCE_REPLY, whom, argument, by)
	answer_with(by, what, epoch, target[by].incarnation, argument);
	waits = STILL_WAITS(waits);
	argument = 0
}

inline opened() {
	SAW(E_OPEN_REPLY, 0, 0, 0)
	opening = false;
	answer(0, OPENED, epoch, target[0].incarnation)
}

/* What the initiator believes of its own ends; the target's device comes to notice it, sooner or later. */
bool up[QUEUES], logging[QUEUES];
byte losses = LOSSES;	/* that are left, to be noticed by either end first */
byte used[QUEUES];	/* incarnation of the latest login */
byte used_epoch = 1;

/* Is nothing left of the queue up to this incarnation? Also of a volume: then the connection need not be drained. */
#ifdef FENCE_FORGETS_LINGERING
#define LINGERS(q, last) false
#else
#define LINGERS(q, last) (lingers[q].incarnation != 0 && lingers[q].incarnation <= last)
#endif
#ifdef FENCE_AT_ONCE
#define IS_FENCED(q, last) true
#else
#define IS_FENCED(q, last) (!(target[q].command != EMPTY && target[q].incarnation <= last) && !LINGERS(q, last))
#endif
/* Is nothing left that this process has given to the volume's store for a connection that has ended? */
#define IS_QUIET(q) (lingers[q].generation == 0 || lingers[q].incarnation == KILLED)
#define ALL_QUIET (IS_QUIET(0) && IS_QUIET(1))
#ifdef OPEN_AT_ONCE
#define MAY_OPEN true
#else
#define MAY_OPEN ALL_QUIET
#endif
#define IS_CONNECTED(q) ((up[q] || logging[q]) && used[q] == target[q].incarnation && used_epoch == epoch)

/* The target is the first to notice a loss; a login that was given up never arrives. */
#ifdef MORE
#define MORE_STEPS(q) \
	:: atomic { running && target[q].state == LIVE && IS_CONNECTED(q) && losses > 0 -> SPEND(losses); end_queue(q) } \
	:: atomic { nempty(cm[q]) && !logging[q] -> cm[q] ? _, _, _ }
#else
#define MORE_STEPS(q)
#endif

/* The steps of one queue, each as the reactor would take it in a turn of its own. */
#define STEPS(q) \
	:: atomic { running && nempty(cm[q]) -> cm[q] ? e, i, had_one; judge(q, e, i, had_one); \
		    e = 0; i = 0; had_one = false } \
	:: atomic { running && len(cm[q]) > 1 -> cm[q] ? e, i, had_one; cm[q] ! e, i, had_one; \
		    e = 0; i = 0; had_one = false } \
	:: atomic { running && nempty(wire[q]) -> receive(q) } \
	:: atomic { running && target[q].command == RECEIVED -> SAW(E_STORE, q, target[q].generation, 0) \
		    target[q].command = STORING } \
	:: atomic { running && target[q].command == LANDED -> written(q) } \
	:: atomic { running && target[q].state == LIVE && !IS_CONNECTED(q) -> end_queue(q) } \
	MORE_STEPS(q) \
	:: atomic { running && target[q].state == ENDING && MAY_LEAVE(q) -> leave_behind(q, target[q].incarnation) } \
	:: atomic { running && target[q].login != 0 && target[q].state == NONE && (known || ALL_DRAINED) -> resume_login(q) } \
	:: atomic { running && MAY_SAY_FENCED(q, target[q].fence_own) -> \
		    fenced(q, q, OWN_FENCED, target[q].fence_own) } \
	:: atomic { running && MAY_SAY_FENCED(OTHER(q), target[q].fence_other) -> \
		    fenced(OTHER(q), q, OTHER_FENCED, target[q].fence_other) }

proctype Target() IN_STEP {
	mtype kind;
	byte e, i, argument;
	bool had_one;
	byte kills = KILLS, forgets = FORGETS;

end:	do
	STEPS(0)
	STEPS(1)
	:: atomic { running && opening && MAY_OPEN -> opened() }
	:: atomic {
		running && MAY_BE_KILLED && kills > 0 ->
		SAW(E_KILL, 0, 0, 0)
		SPEND(kills);
		running = false;
		known = false;
		epoch = 0;
		kill_queue(0);
		kill_queue(1)
	   }
	:: atomic {
		!running && MAY_SERVE ->
		SAW(E_SERVE, 0, 0, 0)
		running = true
	   }
	:: atomic { running && known && forgets > 0 && MAY_FORGET -> SPEND(forgets); end_session() }
	:: atomic { running && !known && epoch != 0 && ALL_DRAINED && ALL_QUIET -> epoch = 0 }
	od
}

/* -- the disk: whatever it was given lands, some time or other ---------------------------------- */

proctype Disk() IN_STEP {
end:	do
	:: atomic { target[0].command == STORING -> land(target[0].generation); target[0].command = LANDED }
	:: atomic { target[1].command == STORING -> land(target[1].generation); target[1].command = LANDED }
	:: atomic { lingers[0].generation != 0 -> land(lingers[0].generation); lingers[0].generation = 0; lingers[0].incarnation = 0 }
	:: atomic { lingers[1].generation != 0 -> land(lingers[1].generation); lingers[1].generation = 0; lingers[1].incarnation = 0 }
	od
}

/* -- the initiator ----------------------------------------------------------------------------- */

#define NOBODY QUEUES

/* A write that was lost waits for the fence of the connection that it was sent on. */
#ifdef EARLY_RETRY
#define MAY_SEND(q) (up[q] && named && outstanding == NOBODY)
#else
#define MAY_SEND(q) (up[q] && named && outstanding == NOBODY && waits_for == NOBODY)
#endif

/* FENCE is sent for every connection that was lost, or only where a write waits for it. */
#ifdef MORE
#define WANTS_FENCE(q) true
#define MAY_LOG_IN(q) (q == 0 || has_had[0])
#define ANSWERS_MAY_GO(q) true
#else
#define WANTS_FENCE(q) (outstanding == q || lost[q] != 0)
#define MAY_LOG_IN(q) (q == 0 || up[0])
#define ANSWERS_MAY_GO(q) empty(back[q])
#endif

/* In a history FENCE of all may follow that of the volume, which was enough here. */
inline is_fenced(q) {
#ifndef HISTORY
	lost[q] = 0;
#endif
	if
	:: waits_for == q -> waits_for = NOBODY
	:: else
	fi
}

inline drop_fence(whom, by) {
	if
	:: carrier[whom] == by -> carrier[whom] = NOBODY
	:: else
	fi
}

/* The connection may have been lost once more since FENCE was sent: then it says nothing of the later incarnation. */
#ifdef STALE_ANSWER
#define COUNTS(q) (lost[q] != 0)
#else
#define COUNTS(q) (lost[q] == argument)
#endif

inline hear_fenced(whom, by) {
	SAW(E_FENCE_HEARD, whom, argument, by)
	if
	:: COUNTS(whom) -> is_fenced(whom)
	:: else
	fi;
	carrier[whom] = NOBODY
}

/* The loss of an incarnation covers those before it. */
inline lose(q) {
	refused[OTHER(q)] = false;
	if
	:: up[q] ->
		SAW(E_LOST, q, used[q], 0)
		lost[q] = (WANTS_FENCE(q) -> used[q] : 0)
	:: else
	fi;
	up[q] = false;
	if
	:: outstanding == q -> outstanding = NOBODY; waits_for = q
	:: else
	fi;
	/* A FENCE that was under way on it has no answer any more; nor has OPEN. */
	drop_fence(0, q);
	drop_fence(1, q);
	if
	:: q == 0 -> asked = false
	:: else
	fi
}

/* In this epoch nothing was sent before: what waits was sent in an older one. */
inline name() {
	if
	:: !named -> named = true; waits_for = NOBODY
	:: else
	fi
}

inline log_in(q) {
	used[q]++;
	assert(used[q] < INCARNATIONS);
	logging[q] = true;
	if
	:: has_had[q] -> SAW(E_LOGIN_AGAIN, q, used_epoch, used[q]) skip
	:: else -> SAW(E_LOGIN, q, used_epoch, used[q]) skip
	fi;
	cm[q] ! used_epoch, used[q], has_had[q]
}

inline hear(q) {
	back[q] ? kind, e, i, argument;
	if
	:: e != used_epoch || i != used[q]
	:: else ->
		if
		:: kind == WRITTEN && up[q] && outstanding == q ->
			SAW(E_HEARD, q, generation, 0)
			CLAIM(disk == generation);
			acknowledged = generation;
			generation++;
			outstanding = NOBODY
		:: kind == OWN_FENCED && up[q] -> hear_fenced(q, q)
		:: kind == OTHER_FENCED && up[q] -> hear_fenced(OTHER(q), q)
		:: kind == OPENED && up[q] ->
			SAW(E_OPEN_HEARD, 0, 0, 0)
			asked = false;
			name()
		:: kind == ACCEPTED && logging[q] ->
			SAW(E_UP, q, 0, 0)
			refused[OTHER(q)] = false;
			logging[q] = false;
			up[q] = true;
			has_had[q] = true;
#ifdef ACCEPT_IS_FENCE
			is_fenced(q);
#endif
#ifdef EARLY_NAME
			name();
#endif
			skip
		:: kind == NO_SESSION && logging[q] && q == 0 && !up[1] -> renew()
		/* The other connection may be well: it waits until it has lost that, too. */
		:: kind == NO_SESSION && logging[q] && (q == 1 || up[1]) ->
			SAW(E_OVER, q, 0, 0)
			logging[q] = false;
			refused[q] = true
		:: kind == STALE && logging[q] -> SAW(E_OVER, q, 0, 0) logging[q] = false
		:: else
		fi
	fi;
	kind = 0; e = 0; i = 0; argument = 0
}

/* A new life of the session: nothing of the old one is left when OPEN is answered. */
inline renew() {
	lose(0);
	lose(1);
	lost[0] = 0;
	lost[1] = 0;
	logging[0] = false;
	logging[1] = false;
	has_had[0] = false;
	has_had[1] = false;
	named = false;
	used_epoch++;
	SAW(E_RENEW, 0, used_epoch, 0)
}

/* A broken connection costs one of the faults; that the target's end is gone shows for nothing. */
#define IS_GONE(q) \
	(!running || target[q].state != LIVE || target[q].incarnation != used[q] || epoch != used_epoch)

/* It tries again and again. Once will do, until something has changed. */
#ifdef HISTORY
#define MAY_TRY(q) true
#else
#define MAY_TRY(q) (!refused[q] || known && epoch == used_epoch)
#endif

/* OPEN may be answered BUSY, and sent again; the volume has a FENCE of its own beside that of all. */
#ifdef HISTORY
#define MAY_ASK true
#define IS_FREE(whom, by) true
#else
#define MAY_ASK (!named && !asked)
#define IS_FREE(whom, by) (carrier[whom] == NOBODY && carrier[OTHER(whom)] != by)
#endif

#define ACTIONS(q) \
	:: atomic { nempty(back[q]) -> hear(q) } \
	:: atomic { MAY_SEND(q) && nfull(wire[q]) -> \
		    SAW(E_SENT, q, generation, 0) wire[q] ! WRITE, used_epoch, used[q], generation; outstanding = q } \
	:: atomic { up[q] && ANSWERS_MAY_GO(q) && IS_GONE(q) -> lose(q) } \
	:: atomic { up[q] && losses > 0 && !IS_GONE(q) -> SPEND(losses); lose(q) } \
	:: atomic { !up[q] && !logging[q] && MAY_LOG_IN(q) && MAY_TRY(q) && nfull(cm[q]) -> log_in(q) } \
	:: atomic { logging[q] && give_ups > 0 -> SPEND(give_ups); SAW(E_OVER, q, 0, 0) logging[q] = false } \
	:: atomic { MAY_SEND_FENCE(q, OTHER(q)) -> send_fence(q, OTHER(q), FENCE_OTHER) } \
	:: atomic { MAY_SEND_FENCE(q, q) -> send_fence(q, q, FENCE_OWN) }

/* By any connection, its own next one included. */
#define MAY_SEND_FENCE(whom, by) \
	(lost[whom] != 0 && up[by] && IS_FREE(whom, by) && nfull(wire[by]))

inline send_fence(whom, by, what) {
	SAW(E_FENCE_SENT, whom, lost[whom], by)
	wire[by] ! what, used_epoch, used[by], lost[whom];
	carrier[whom] = by
}

proctype Initiator() IN_STEP {
	mtype kind;
	byte e, i, argument;
	byte generation = 1, outstanding = NOBODY;
	byte give_ups = GIVE_UPS, renewals = RENEWALS;
	byte lost[QUEUES]; /* its last incarnation that was lost, and is not fenced yet; 0: none */
	byte waits_for = NOBODY; /* the queue that a write was lost with, until that is fenced */
	byte carrier[QUEUES] = NOBODY; /* the queue that its FENCE was sent on */
	bool has_had[QUEUES];
	bool named, asked; /* OPEN is answered in this epoch; is sent, and not answered yet */
	bool refused[QUEUES]; /* with NO_SESSION, and nothing has changed since */

	do
	:: generation <= GENERATIONS ->
		if
		ACTIONS(0)
		ACTIONS(1)
		:: atomic {
			up[0] && MAY_ASK && nfull(wire[0]) ->
			SAW(E_OPEN_SENT, 0, 0, 0)
			wire[0] ! OPEN, used_epoch, used[0], 0;
			asked = true
		   }
		:: atomic { renewals > 0 && has_had[0] -> SPEND(renewals); renew() }
		fi
	:: else -> break
	od;
	CLAIM(disk == GENERATIONS)
}

init {
	atomic {
#ifdef HISTORY
		run History();
#endif
		run Target();
		run Disk();
		run Initiator()
	}
}
