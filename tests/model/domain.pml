/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fence domains (F10 of the specification's section 8) as a model that spin searches exhaustively: two machines that
 * reach one disk, a target on each, one initiator that names both, one block. The initiator writes generation 1, 2, ...
 * of the block, each when the one before was acknowledged, at the target where it has the volume open; when it loses
 * that, it opens the volume at any target that it may use, and sends again what was not acknowledged. What one
 * connection of a session is to the next of the same target is fence.pml's; here an opening at a target waits for what
 * that target has with the disk (F5), and says nothing of the other's.
 *
 * Each machine has a domain of its own, and both may serve at a time; or both have one, and a cluster manager starts a
 * target only when the other has ended and left nothing. Either way a target that starts waits for what its predecessor
 * on the same machine has left (F6).
 *
 * Held against it: what was acknowledged is on the disk, and nothing older lands on it afterwards; and when the faults
 * are used up, every generation gets written. tests/model/check searches it as it stands, and once with each of these,
 * which must be found out:
 *   UNHEEDED         the initiator uses any target, whatever domain it reports
 *   NO_PROMISE       one domain for both, and a target starts while the other serves
 *   LEFT_BEHIND      the same, and it starts when the other has ended, and what that has left is still to land
 *   NO_LOCK          a target starts before its predecessor's storage I/O is over (F6)
 * tests/model/histories has it accept what the simulator has seen librblk and rblkd do (history.pml).
 */
#include "history.pml"

/* What the simulator can see; the first number is a target, or 0: */
#define E_AT 1		/* the volume is open there: commands may be sent */
#define E_SHUT 2	/* they may not any more */
#define E_SENT 3	/* generation: a write goes */
#define E_STORE 4	/* generation, target: the target gives it to the disk */
#define E_LAND 5	/* generation, target: it is on the disk */
#define E_HEARD 6	/* generation: the initiator hears the answer */
#define E_KILL 7	/* the target's process ends */
#define E_SERVE 8	/* the next one on that machine */

#define TARGETS 2
#define NOBODY TARGETS
#define OTHER(t) (1 - (t))
#ifdef HISTORY
#define GENERATIONS 255
#define LOSSES 255
#define KILLS 255
#else
#define GENERATIONS 2
#endif
#ifndef LOSSES
#define LOSSES 2 /* connections that break */
#endif
#ifndef KILLS
#define KILLS 1  /* of targets */
#endif

typedef target_state {
	bool running;
	byte life;	/* of its process: the instance */
	byte received;	/* a generation that it has, and has not given to the disk; 0: none */
	byte storing;	/* with the disk */
	byte landed;	/* and not answered yet */
	byte ghost;	/* with the disk, of a process that was killed */
};

target_state target[TARGETS];
byte disk, acknowledged;
bool common;		/* both machines have one domain */

/* The initiator's. */
byte place = NOBODY;	/* where the volume is open */
byte last = NOBODY, last_life; /* where it was last: the instance */
bool outstanding;

inline land(content, t) {
	SAW(E_LAND, 0, content, t)
	CLAIM(content >= acknowledged);
	disk = content
}

/* -- the machines ------------------------------------------------------------------------------ */

#ifdef NO_LOCK
#define HAS_LOCK(t) true
#else
#define HAS_LOCK(t) (target[t].ghost == 0)
#endif
/* The cluster manager's promise. */
#if defined(NO_PROMISE)
#define IS_ALONE(t) true
#elif defined(LEFT_BEHIND)
#define IS_ALONE(t) (!target[OTHER(t)].running)
#else
#define IS_ALONE(t) (!target[OTHER(t)].running && target[OTHER(t)].ghost == 0)
#endif

inline kill(t) {
	SAW(E_KILL, t, 0, 0)
	target[t].running = false;
	target[t].received = 0;
	if
	:: target[t].storing != 0 -> target[t].ghost = target[t].storing
	:: else
	fi;
	target[t].storing = 0
}

#define MACHINE(t) \
	:: atomic { target[t].received != 0 && target[t].storing == 0 -> \
		    SAW(E_STORE, 0, target[t].received, t) \
		    target[t].storing = target[t].received; target[t].received = 0 } \
	:: atomic { target[t].running && kills > 0 -> kills--; kill(t) } \
	:: atomic { !target[t].running && HAS_LOCK(t) && (!common || IS_ALONE(t)) -> \
		    SAW(E_SERVE, t, 0, 0) target[t].running = true; target[t].life++ }

proctype Machines() IN_STEP {
	byte kills = KILLS;

end:	do
	MACHINE(0)
	MACHINE(1)
	od
}

proctype Disk() IN_STEP {
end:	do
	:: atomic { target[0].storing != 0 -> land(target[0].storing, 0); target[0].landed = target[0].storing;
		    target[0].storing = 0 }
	:: atomic { target[1].storing != 0 -> land(target[1].storing, 1); target[1].landed = target[1].storing;
		    target[1].storing = 0 }
	:: atomic { target[0].ghost != 0 -> land(target[0].ghost, 0); target[0].ghost = 0 }
	:: atomic { target[1].ghost != 0 -> land(target[1].ghost, 1); target[1].ghost = 0 }
	od
}

/* -- the initiator ----------------------------------------------------------------------------- */

/* F10: the same instance, or another one of the same domain. */
#ifdef UNHEEDED
#define MAY_USE(t) true
#else
#define MAY_USE(t) (last == NOBODY || last == t || common)
#endif
/*
 * F5: what the target has of the session that has not begun is dropped, and the rest is waited for: before the volume is open, or, where
 * the session has gone on at the same instance, before anything is sent.
 */
#define IS_FENCED(t) (target[t].storing == 0)
#define GOES_ON(t) (last == t && last_life == target[t].life)

inline open(t) {
	SAW(E_AT, t, 0, 0)
	target[t].received = 0;
	target[t].landed = 0;
	place = t;
	last = t
}

inline lose() {
	SAW(E_SHUT, 0, 0, 0)
	place = NOBODY;
	outstanding = false /* it is sent again */
}

#define ACTIONS(t) \
	:: atomic { place == NOBODY && target[t].running && MAY_USE(t) && (IS_FENCED(t) || GOES_ON(t)) -> open(t); last_life = target[t].life } \
	:: atomic { place == t && !outstanding && target[t].received == 0 && IS_FENCED(t) -> \
		    SAW(E_SENT, 0, generation, 0) \
		    target[t].landed = 0; \
		    target[t].received = (target[t].running && last_life == target[t].life -> generation : 0); \
		    outstanding = true } \
	:: atomic { place == t && outstanding && target[t].landed == generation -> \
		    SAW(E_HEARD, 0, generation, 0) \
		    CLAIM(disk == generation); \
		    acknowledged = generation; generation++; outstanding = false; target[t].landed = 0 } \
	:: atomic { place == t && losses > 0 -> losses--; lose() } \
	:: atomic { place == t && (!target[t].running || last_life != target[t].life) -> lose() }

proctype Initiator() IN_STEP {
	byte generation = 1, losses = LOSSES;

	do
	:: generation <= GENERATIONS ->
		if
		ACTIONS(0)
		ACTIONS(1)
		fi
	:: else -> break
	od;
	CLAIM(disk == GENERATIONS)
}

init {
	atomic {
#if defined(NO_PROMISE) || defined(LEFT_BEHIND)
		common = true;
#elif defined(UNHEEDED)
		common = false;
#else
		if
		:: common = true
		:: common = false
		fi;
#endif
		target[0].running = true;
#ifdef HISTORY
		run History();
#endif
		run Machines();
		run Disk();
		run Initiator()
	}
}
