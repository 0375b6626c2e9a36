/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sessions, incarnations and fencing (F5 and F6 of the specification's section 8, the states of its section
 * 10) as a model that spin searches exhaustively: one initiator with two queues, one target, one block.
 * The initiator writes generation 1, 2, ... of the block, each when the one before was acknowledged, over
 * whatever connection it has, and sends a write again whose connection was lost. Connections break at any
 * time and the target notices late; logins are given up, and arrive after their successors; the initiator
 * renews its session when it likes; the target is killed with writes in its disk, or forgets a session
 * that has nothing left. With MORE, which takes more time to search, it is also the target that notices a
 * loss first, answers and logins are lost on their way, every lost connection is fenced, and queue 1 is
 * connected while queue 0 is not.
 *
 * Held against it: what was acknowledged is on the disk, and nothing older lands on it afterwards; only
 * ended queues are succeeded; and when the faults are used up, every generation gets written (spin finds
 * an initiator that is stuck as an invalid end state).
 *
 * tests/model/check searches it as it stands, and once with each of these, which break one rule each and
 * must be found out:
 *   FENCE_AT_ONCE    FENCE is answered before the storage I/O of the fenced queue is over
 *   LOGIN_AT_ONCE    a login is accepted before that of the older incarnation is over
 *   NO_FORGET        a higher epoch is accepted beside the queues of the older one
 *   FENCE_IN_PART    FENCE waits for what is in the disk, and leaves the connection as it is
 *   EARLY_RETRY      the initiator sends again before the fence is acknowledged
 *   NO_LOCK          a started target serves before its predecessor's storage I/O is over (F6)
 * tests/model/histories has it accept what the simulator has seen librblk and rblkd do (history.pml).
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
#define E_FENCE_SENT 13	/* incarnation: to be fenced, of this queue */
#define E_FENCE_REPLY 14	/* the target has fenced this queue */
#define E_FENCE_HEARD 15	/* the initiator hears that, and it matters */
#define E_KILL 16		/* the target's process (queue 0) */
#define E_SERVE 17	/* its successor */

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

#define OTHER(q) (1 - (q))

mtype = { NONE, LIVE, ENDING };			/* a queue at the target; NONE: ended, or never was */
mtype = { EMPTY, RECEIVED, STORING, LANDED };	/* the command of a queue */
mtype = { WRITE, FENCE, LOGIN };		/* to the target */
mtype = { WRITTEN, FENCED, ACCEPTED, STALE, NO_SESSION }; /* to the initiator */

typedef queue {
	mtype state = NONE;
	byte incarnation;	/* of the connection that is there */
	byte highest;		/* accepted or fenced: what is not above it is stale */
	mtype command = EMPTY;
	byte generation;
	byte login;		/* that waits for this queue's end: its incarnation; 0: none */
	byte login_epoch;
	bool login_had_one;
	byte fencer;		/* incarnation of the other queue that waits for this one's end; 0: none */
};

/* The target process. All of it is gone when it is killed. */
bool running = true, known;
bool forgetting;		/* a higher epoch has come: the session ends, and logins wait for that */
byte epoch;			/* of the session, if it is known */
queue target[QUEUES];

/* The disk: survives everything. A killed target's writes are the ghosts. */
byte disk, acknowledged;
byte ghost[QUEUES];

/* What is on its way: kind, epoch, incarnation, and generation, or the incarnation to fence. */
chan wire[QUEUES] = [2] of { mtype, byte, byte, byte };
chan cm[QUEUES] = [3] of { byte, byte, bool };	/* epoch, incarnation, has had one before */
chan back[QUEUES] = [4] of { mtype, byte, byte };	/* kind, epoch, incarnation */

inline land(content) {
	SAW(E_LAND, 0, content, 0)
	CLAIM(content >= acknowledged);
	disk = content
}

/* -- the target -------------------------------------------------------------------------------- */

inline answer(who, what, in_epoch, to) {
	/* Without room the peer has gone: the channel holds more than one connection can have. */
	if
	:: nfull(back[who]) -> back[who] ! what, in_epoch, to
	:: full(back[who])
	fi
}

inline end_queue(q) {
	if
	:: target[q].state == LIVE ->
		target[q].state = ENDING;
		if
		:: target[q].command == RECEIVED -> target[q].command = EMPTY
		:: else
		fi
	:: else
	fi
}

#ifdef HISTORY
#define MAY_BE_KILLED true
#else
#define MAY_BE_KILLED known	/* else it is no event for anybody */
#endif
#ifdef NO_LOCK
#define MAY_SERVE true
#else
#define MAY_SERVE (ghost[0] == 0 && ghost[1] == 0)
#endif

/* The new incarnation has the queue; what an older one still has in the disk answers to nobody. */
inline accept(place, its_epoch, its) {
#if !defined(LOGIN_AT_ONCE) && !defined(NO_FORGET)
	CLAIM(target[place].state == NONE && target[place].command == EMPTY);
#endif
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

inline judge(q, e, i, had_one) {
	if
	:: forgetting -> wait_login(q, e, i, had_one)
	:: !forgetting && !known ->
		if
		:: q != 0 || had_one -> answer(q, NO_SESSION, e, i)
		:: else ->
			known = true;
			epoch = e;
			accept(q, e, i)
		fi
	:: !forgetting && known && e < epoch -> answer(q, STALE, e, i)
	:: !forgetting && known && e > epoch ->	/* whichever queue says so: the old life is over */
#ifdef NO_FORGET
		epoch = e;
		target[OTHER(q)].highest = 0;
		accept(q, e, i)
#else
		end_queue(0);
		end_queue(1);
		forgetting = true;
		wait_login(q, e, i, had_one)
#endif
	:: !forgetting && known && e == epoch && i <= target[q].highest -> answer(q, STALE, e, i)
	:: !forgetting && known && e == epoch && i > target[q].highest ->
		if
		:: target[q].state == NONE -> accept(q, e, i)
		:: else ->
			end_queue(q);
#ifdef LOGIN_AT_ONCE
			accept(q, e, i)
#else
			wait_login(q, e, i, had_one)
#endif
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

/* Nothing is left of the session's old life: the target knows it no more. */
inline forget() {
	forgetting = false;
	known = false;
	epoch = 0;
	target[0].highest = 0;
	target[1].highest = 0;
	target[0].fencer = 0;
	target[1].fencer = 0
}

inline fence(q, last, by) {
	if
	:: target[q].highest < last -> target[q].highest = last
	:: else
	fi;
#ifndef FENCE_IN_PART
	if
	:: target[q].incarnation <= last -> end_queue(q)
	:: else
	fi;
#endif
	target[q].fencer = by
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
		:: kind == FENCE -> fence(OTHER(q), argument, i)
		fi
	fi;
	kind = 0; e = 0; i = 0; argument = 0
}

inline forget_queue(q) {
	target[q].state = NONE;
	target[q].incarnation = 0;
	target[q].highest = 0;
	target[q].command = EMPTY;
	target[q].generation = 0;
	target[q].login = 0;
	target[q].login_epoch = 0;
	target[q].login_had_one = false;
	target[q].fencer = 0
}

inline leave_ghost(q) {
	if
	:: target[q].command == STORING -> ghost[q] = target[q].generation
	:: else
	fi;
	if
	:: target[q].login != 0 -> answer(q, STALE, target[q].login_epoch, target[q].login)
	:: else
	fi;
	forget_queue(q)
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

inline fenced(q) {
	if
	:: target[OTHER(q)].state == LIVE && target[OTHER(q)].incarnation == target[q].fencer ->
		SAW(E_FENCE_REPLY, q, 0, 0)
		answer(OTHER(q), FENCED, epoch, target[q].fencer)
	:: else
	fi;
	target[q].fencer = 0
}

/* What the initiator believes of its own ends; the target's device comes to notice it, sooner or later. */
bool up[QUEUES], logging[QUEUES];
byte losses = LOSSES;	/* that are left, to be noticed by either end first */
byte used[QUEUES];	/* incarnation of the latest login */
byte used_epoch = 1;

#ifdef FENCE_AT_ONCE
#define IS_FENCED(q) true
#else /* also of a volume: then the connection need not be drained */
#define IS_FENCED(q) (target[q].command == EMPTY)
#endif
#define IS_CONNECTED(q) ((up[q] || logging[q]) && used[q] == target[q].incarnation && used_epoch == epoch)

/* The target is the first to notice a loss; a login that was given up never arrives. */
#ifdef MORE
#define MORE_STEPS(q) \
	:: atomic { running && target[q].state == LIVE && IS_CONNECTED(q) && losses > 0 -> losses--; end_queue(q) } \
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
	:: atomic { running && target[q].state == ENDING && target[q].command == EMPTY -> \
		    target[q].state = NONE; target[q].incarnation = 0 } \
	:: atomic { running && !forgetting && target[q].login != 0 && target[q].state == NONE -> resume_login(q) } \
	:: atomic { running && target[q].fencer != 0 && IS_FENCED(q) -> fenced(q) }

proctype Target() IN_STEP {
	mtype kind;
	byte e, i, argument;
	bool had_one;
	byte kills = KILLS, forgets = FORGETS;

end:	do
	STEPS(0)
	STEPS(1)
	:: atomic { running && forgetting && target[0].state == NONE && target[1].state == NONE -> forget() }
	:: atomic {
		running && MAY_BE_KILLED && kills > 0 ->
		SAW(E_KILL, 0, 0, 0)
		kills--;
		running = false;
		forgetting = false;
		known = false;
		epoch = 0;
		leave_ghost(0);
		leave_ghost(1)
	   }
	:: atomic {
		!running && MAY_SERVE ->
		SAW(E_SERVE, 0, 0, 0)
		running = true
	   }
	:: atomic {
		running && known && !forgetting && forgets > 0 && target[0].state == NONE && target[1].state == NONE &&
		target[0].login == 0 && target[1].login == 0 ->
		forgets--;
		known = false;
		epoch = 0;
		forget_queue(0);
		forget_queue(1)
	   }
	od
}

/* -- the disk: whatever it was given lands, some time or other ---------------------------------- */

proctype Disk() IN_STEP {
end:	do
	:: atomic { target[0].command == STORING -> land(target[0].generation); target[0].command = LANDED }
	:: atomic { target[1].command == STORING -> land(target[1].generation); target[1].command = LANDED }
	:: atomic { ghost[0] != 0 -> land(ghost[0]); ghost[0] = 0 }
	:: atomic { ghost[1] != 0 -> land(ghost[1]); ghost[1] = 0 }
	od
}

/* -- the initiator ----------------------------------------------------------------------------- */

#define NOBODY QUEUES

/* A write that was lost waits for the fence of the connection that it was sent on. */
#ifdef EARLY_RETRY
#define MAY_SEND(q) (up[q] && outstanding == NOBODY)
#else
#define MAY_SEND(q) (up[q] && outstanding == NOBODY && waits_for == NOBODY)
#endif

/* FENCE is sent for every connection that was lost, or only where a write waits for it. */
#ifdef MORE
#define WANTS_FENCE(q) true
#define MAY_LOG_IN(q) (q == 0 || has_had[0])
#define ANSWERS_MAY_GO(q) true
#else
#define WANTS_FENCE(q) (outstanding == q)
#define MAY_LOG_IN(q) (q == 0 || up[0])
#define ANSWERS_MAY_GO(q) empty(back[q])
#endif

inline is_fenced(q) {
	lost[q] = 0;
	if
	:: waits_for == q -> waits_for = NOBODY
	:: else
	fi
}

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
	/* A FENCE that was under way on it has no answer any more. */
	if
	:: fencing == OTHER(q) -> fencing = NOBODY; outlawed = 0
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
	back[q] ? kind, e, i;
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
		:: kind == FENCED && up[q] && fencing == OTHER(q) ->
			/* A login may have made it needless, and that connection may be lost again by now. */
			if
			:: lost[fencing] == outlawed -> SAW(E_FENCE_HEARD, fencing, 0, 0) is_fenced(fencing)
			:: else
			fi;
			outlawed = 0;
			fencing = NOBODY
		:: kind == ACCEPTED && logging[q] ->
			SAW(E_UP, q, 0, 0)
			refused[OTHER(q)] = false;
			logging[q] = false;
			up[q] = true;
			has_had[q] = true;
			is_fenced(q);
			if
			:: q == 0 && renewing -> is_fenced(OTHER(q)); renewing = false
			:: else
			fi
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
	kind = 0; e = 0; i = 0
}

/* A new life of the session: nothing of the old one is left when queue 0 has been accepted. */
inline renew() {
	lose(0);
	lose(1);
	logging[0] = false;
	logging[1] = false;
	has_had[0] = false;
	has_had[1] = false;
	renewing = true;
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
#define MAY_TRY(q) (!refused[q])
#endif

#define ACTIONS(q) \
	:: atomic { nempty(back[q]) -> hear(q) } \
	:: atomic { MAY_SEND(q) && nfull(wire[q]) -> \
		    SAW(E_SENT, q, generation, 0) wire[q] ! WRITE, used_epoch, used[q], generation; outstanding = q } \
	:: atomic { up[q] && ANSWERS_MAY_GO(q) && IS_GONE(q) -> lose(q) } \
	:: atomic { up[q] && losses > 0 && !IS_GONE(q) -> losses--; lose(q) } \
	:: atomic { !up[q] && !logging[q] && MAY_LOG_IN(q) && MAY_TRY(q) && nfull(cm[q]) -> log_in(q) } \
	:: atomic { logging[q] && give_ups > 0 -> give_ups--; SAW(E_OVER, q, 0, 0) logging[q] = false } \
	:: atomic { lost[q] != 0 && !up[q] && up[OTHER(q)] && fencing == NOBODY && nfull(wire[OTHER(q)]) -> \
		    SAW(E_FENCE_SENT, q, lost[q], 0) wire[OTHER(q)] ! FENCE, used_epoch, used[OTHER(q)], lost[q]; fencing = q; outlawed = lost[q] }

proctype Initiator() IN_STEP {
	mtype kind;
	byte e, i;
	byte generation = 1, outstanding = NOBODY, fencing = NOBODY;
	byte give_ups = GIVE_UPS, renewals = RENEWALS;
	byte lost[QUEUES]; /* its last incarnation that was lost, and is not fenced yet; 0: none */
	byte waits_for = NOBODY; /* the queue that a write was lost with, until that is fenced */
	byte outlawed;     /* the incarnation that is being fenced */
	bool has_had[QUEUES], renewing;
	bool refused[QUEUES]; /* with NO_SESSION, and nothing has changed since */

	do
	:: generation <= GENERATIONS ->
		if
		ACTIONS(0)
		ACTIONS(1)
		:: atomic { renewals > 0 && has_had[0] -> renewals--; renew() }
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
