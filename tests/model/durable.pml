/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What an application is told of its commands (F4 and F7 of the specification's section 8) as a model that
 * spin searches exhaustively: one initiator with one queue, one target with one block, whose disk has a
 * volatile cache. The initiator writes generation 1, 2, ... of the block from one buffer, each when the one
 * before was completed, and flushes when it likes. Connections break while a command is at any stage; the
 * initiator sends it again after the login that fences it, or gives up on it (fail-fast) and uses the
 * buffer for the next. The target's machine crashes and loses any of what is not on the medium; the session
 * goes on with it. fence.pml has the fences themselves, with several queues.
 *
 * Held against it: what is stored is what its command says; every command is completed exactly once; what a
 * FLUSH that succeeds covers is on the medium; and when the faults are used up, nothing is stuck (spin finds
 * that as an invalid end state).
 *
 * tests/model/histories has it accept what the simulator has seen librblk and rblkd do (history.pml).
 * tests/model/check searches it as it stands, and once with each of these, which must be found out:
 *   NO_DRAIN     a command is completed before its lost connection has drained and its key is dead (F4)
 *   NO_EPOCH     the cache epoch that OPEN reports is not looked at (F7)
 *   TOLD_ONCE    FLUSH fails once after a loss, and then succeeds, though nobody has said that he knows (F7)
 *   FLUSH_GOES_ON a FLUSH that waits for the new connection succeeds although the cache was lost (F7)
 *   DONE_TWICE   a command that is answered and not told yet is sent again when its connection is lost
 */
#include "history.pml"

/* What the simulator can see: queue 0, then: */
#define E_BEGIN 1	/* generation: a write, which waits for a connection if there is none */
#define E_BEGIN_FLUSH 2
#define E_REFUSED 3	/* a FLUSH, for acknowledged writes may be lost */
#define E_KNOWN 4	/* the application says that it knows of that */
#define E_SENT 5	/* generation */
#define E_SENT_FLUSH 6
#define E_STORE 7	/* generation: it is given to the disk */
#define E_LAND 8	/* generation: it is in the disk's cache */
#define E_SYNC 9	/* the cache is on the medium */
#define E_HEARD 10	/* generation: the initiator hears the answer */
#define E_HEARD_FLUSH 11
#define E_SHUT 12	/* the connection is lost */
#define E_OPEN 13	/* there is another one, and the volume is open */
#define E_KILL 14	/* the machine crashes */

#ifdef HISTORY
#define GENERATIONS 255
#define LOSSES 255
#define CRASHES 255
#define FAIL_FASTS 0
#define FLUSHES 255
#endif
#ifndef GENERATIONS
#define GENERATIONS 3
#endif
#ifndef LOSSES
#define LOSSES 2	/* connections that break */
#endif
#ifndef CRASHES
#define CRASHES 1	/* of the target's machine */
#endif
#ifndef FAIL_FASTS
#define FAIL_FASTS 1	/* commands that are given up without a connection */
#endif
#ifndef FLUSHES
#define FLUSHES 2
#endif

mtype = { WRITE, FLUSH };
mtype = { EMPTY, RECEIVED, FETCHED, STORED };	/* the command at the target */

/* The initiator's memory and the key by which the target reads it: valid above `dead`. */
byte buffer, dead;
/* Its connection: an incarnation, and whether it is up. What is on the wire of another is lost. */
byte incarnation = 1;
#ifdef HISTORY
bool up = false;	/* its first OPEN is part of the history */
#else
bool up = true;
#endif
chan wire = [1] of { mtype, byte, byte };	/* kind, generation, incarnation */
chan back = [1] of { byte, bool };		/* incarnation, success */

/* The target and its disk. */
byte serves = 1;	/* the incarnation that it has accepted */
byte cache, medium;	/* generations of the block */
byte cache_epoch = 1;
mtype command = EMPTY, kind_here;
byte generation_here;
byte lingers;	/* a write of an older incarnation that the disk still has; 0: none */
byte crashes = CRASHES;

proctype Target() IN_STEP {
	mtype kind;
	byte g, i;

end:	do
	:: atomic {
		nempty(wire) ->
		wire ? kind, g, i;
		if
		:: i == serves && command == EMPTY -> command = RECEIVED; kind_here = kind; generation_here = g
		:: else
		fi;
		kind = 0; g = 0; i = 0
	   }
	/* Its RDMA READ: of memory that is the command's, or a key that is not valid any more. */
	:: atomic {
		command == RECEIVED && kind_here == WRITE ->
		if
		:: dead >= serves -> command = EMPTY
		:: else ->
			SAW(E_STORE, 0, generation_here, 0)
			CLAIM(buffer == generation_here);
			command = FETCHED
		fi
	   }
	:: atomic { command == FETCHED -> SAW(E_LAND, 0, generation_here, 0) cache = generation_here; command = STORED }
	:: atomic { lingers != 0 -> SAW(E_LAND, 0, lingers, 0) cache = lingers; lingers = 0 }
	:: atomic { command == RECEIVED && kind_here == FLUSH ->
		SAW(E_SYNC, 0, 0, 0)
		medium = cache;
		command = STORED
	   }
	:: atomic {
		command == STORED ->
		command = EMPTY;
		if
		:: up && incarnation == serves -> back ! serves, true
		:: !up || incarnation != serves
		fi
	   }
	/* The disk writes its cache back when it likes; so does a FLUSH of a connection that is lost, and a process that ends. */
#ifdef HISTORY
	:: atomic { SAW(E_SYNC, 0, 0, 0) medium = cache }
#endif
	:: atomic { medium != cache -> medium = cache }
	:: atomic {
		crashes > 0 ->
		SAW(E_KILL, 0, 0, 0)
		crashes--;
		cache = medium;
		cache_epoch++;
		command = EMPTY;
		lingers = 0;
		serves = 0
	   }
	od
}

#define NOTHING 0

proctype Initiator() IN_STEP {
	byte losses = LOSSES, fail_fasts = FAIL_FASTS, flushes = FLUSHES;
	byte generation = 1, acked, covers, forgiven, known = 1;
	byte opened;	/* the cache epoch that the answer of OPEN has, which is on its way; 0: none */
	byte i;
	byte outstanding = NOTHING;	/* or WRITE, FLUSH */
	bool sent, answered;		/* it is; the latter, and not called back yet */
	bool ok, drained = true, dirty, lost, told;
	bool doomed;	/* the FLUSH was asked for before a loss */

	do
	/* Something new. */
	:: atomic {
		outstanding == NOTHING && generation <= GENERATIONS ->
		SAW(E_BEGIN, 0, generation, 0)
		outstanding = WRITE; buffer = generation; sent = false; told = false
	   }
	:: atomic {
		outstanding == NOTHING && flushes > 0 ->
		flushes--;
		if
		:: lost ->	/* refused; whoever asked may say that he knows */
			SAW(E_REFUSED, 0, 0, 0)
			if
			:: SAW(E_KNOWN, 0, 0, 0) lost = false; forgiven = acked
			:: skip
			fi;
#ifdef TOLD_ONCE
			lost = false
#endif
		:: else ->
			SAW(E_BEGIN_FLUSH, 0, 0, 0)
			outstanding = FLUSH; covers = acked; sent = false; told = false
		fi
	   }
	:: outstanding == NOTHING && generation > GENERATIONS && flushes == 0 -> break
	/* It goes. */
	:: atomic {
		outstanding != NOTHING && !sent && !answered && up && lingers == 0 && nfull(wire) ->
		if
		:: outstanding == WRITE -> SAW(E_SENT, 0, generation, 0) skip
		:: else -> SAW(E_SENT_FLUSH, 0, 0, 0) skip
		fi;
		wire ! outstanding, generation, incarnation; sent = true
	   }
	/* It is answered, and counts from then on; and told. */
	:: atomic {
		nempty(back) ->
		back ? i, ok;
		if
		:: up && i == incarnation && sent && !answered ->
			answered = true;
			if
			:: outstanding == WRITE ->
				SAW(E_HEARD, 0, generation, 0)
				acked = generation; dirty = true
			:: else ->
				SAW(E_HEARD_FLUSH, 0, 0, 0)
				if
				:: !doomed && covers > forgiven -> CLAIM(medium >= covers)
				:: else
				fi;
				dirty = !doomed && acked > covers;
				doomed = false
			fi
		:: else
		fi;
		i = 0; ok = false
	   }
	:: atomic {
		answered ->
		CLAIM(!told);	/* exactly one completion */
		answered = false;
		if
#ifdef DONE_TWICE
		:: !sent -> told = true	/* and it is sent again */
#endif
		:: sent && outstanding == WRITE -> generation++; outstanding = NOTHING; sent = false
		:: sent && outstanding == FLUSH -> outstanding = NOTHING; sent = false
		fi
	   }
	/* The connection breaks, or its target is gone; it is drained some time after. */
	:: atomic {
		up && (losses > 0 || serves != incarnation) ->
		SAW(E_SHUT, 0, 0, 0)
		if
		:: serves == incarnation -> losses--
		:: else
		fi;
		up = false; drained = false;
		/* What is on its way is lost. */
		if
		:: nempty(wire) -> wire ? _, _, _
		:: empty(wire)
		fi;
		if
		:: nempty(back) -> back ? _, _
		:: empty(back)
		fi;
#ifdef DONE_TWICE
		sent = false
#else
		if
		:: !answered -> sent = false
		:: else
		fi
#endif
	   }
	:: atomic { !up && !drained -> drained = true; dead = incarnation }
	/* Without a connection for too long. */
#ifdef NO_DRAIN
	:: atomic { !up && fail_fasts > 0 && outstanding == WRITE && !answered ->
#else
	:: atomic { !up && drained && fail_fasts > 0 && outstanding == WRITE && !answered ->
#endif
		fail_fasts--; outstanding = NOTHING; generation++; told = false
	   }
	/* The next login: accepted when the last one's connection is over; nothing is sent before what that has in
	   the disk is, too (F5). Without a session it begins a new epoch and opens the volume again; the cache epoch says
	   what became of it (F7). */
	:: atomic {
		!up && drained && opened == 0 && (lingers == 0 || command != FETCHED) ->
		if
		:: command == FETCHED -> lingers = generation_here
		:: else
		fi;
		command = EMPTY;
		incarnation++; serves = incarnation; opened = cache_epoch
	   }
	:: atomic { opened != 0 && serves != incarnation -> opened = 0 }
	:: atomic {
		opened != 0 ->
		SAW(E_OPEN, 0, 0, 0)
		up = true;
		if
		:: known != opened ->
			known = opened;
#ifndef NO_EPOCH
			if
			:: dirty ->
				lost = true;
#ifndef FLUSH_GOES_ON
				doomed = outstanding == FLUSH && !answered;
#endif
				dirty = false
			:: else
			fi
#endif
		:: else
		fi;
		opened = 0
	   }
	od;
	CLAIM(outstanding == NOTHING && generation == GENERATIONS + 1)
}

init {
	atomic {
#ifdef HISTORY
		run History();
#endif
		run Target();
		run Initiator()
	}
}
