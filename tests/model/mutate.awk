# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A history of the simulator made wrong: one event moved, left out, put in or changed, so that it breaks a
# rule. Each way is a function that prints the history and returns true, or returns false where the history
# has no place for it. Its name says which model has to refuse what it makes. tests/model/histories calls
# one at the end of this program.
{
	event[++count] = $1
	queue[count] = $2
	x[count] = $3
	y[count] = $4
}

function print_event(i) {
	print event[i], queue[i], x[i], y[i]
}

# Print all of it, with event `from` before event `to`.
function move(from, to,    i) {
	for (i = 1; i <= count; i++) {
		if (i == to)
			print_event(from)
		if (i != from)
			print_event(i)
	}
	return 1
}

# Print all of it but one; 0: all of it.
function print_without(which,    i) {
	for (i = 1; i <= count; i++)
		if (i != which)
			print_event(i)
	return 1
}

# The next event of one of these kinds (a|b) from `from` on, of this queue unless that is "". 0: there is none.
function next_of(kinds, from, of,    i) {
	for (i = from; i <= count; i++)
		if (event[i] ~ "^(" kinds ")$" && (of == "" || queue[i] == of))
			return i
	return 0
}

# The last one before `before`.
function last_of(kinds, before, of,    i) {
	for (i = before - 1; i > 0; i--)
		if (event[i] ~ "^(" kinds ")$" && (of == "" || queue[i] == of))
			return i
	return 0
}

function happens_between(kinds, from, to, of,    i) {
	i = next_of(kinds, from + 1, of)
	return i && i < to
}

# Where the write was given to the disk that lands at `land`; by this queue, and by a target that lives
# until `until`. Else 0.
function stored_for(land, of, until,    i) {
	i = last_of("STORE", land, "")
	if (!i || x[i] != x[land] || queue[i] != of || happens_between("KILL", i, until, ""))
		return 0
	return i
}

# Is this queue up from `from` to `to`?
function stays_up(of, from, to) {
	return event[last_of("UP|LOST", from, of)] == "UP" && !happens_between("LOST", from, to, of)
}

# F5: a write is sent on another queue before its lost connection is fenced.
function fence_retried_early(    lost, sent, before) {
	for (lost = next_of("LOST", 1, ""); lost; lost = next_of("LOST", lost + 1, "")) {
		before = last_of("SENT", lost, "")
		sent = next_of("SENT", lost, "")
		if (!before || !sent || queue[before] != queue[lost] || happens_between("HEARD", before, lost, ""))
			continue
		if (queue[sent] != queue[lost] && stays_up(queue[sent], lost, sent))
			return move(sent, lost + 1)
	}
	return 0
}

# F5: FENCE is answered, and a write of the fenced queue is still with the disk.
function fence_answered_early(    reply, land, store) {
	for (reply = next_of("FENCE_REPLY", 1, ""); reply; reply = next_of("FENCE_REPLY", reply + 1, "")) {
		land = last_of("LAND", reply, "")
		store = land ? stored_for(land, queue[reply], reply) : 0
		if (store && happens_between("FENCE_SENT", store, land, queue[reply]))
			return move(reply, land)
	}
	return 0
}

# F5: a write is sent on the next incarnation before the lost one is fenced: its acceptance does not say so.
function fence_acceptance_counts(    lost, sent, before, heard) {
	for (heard = next_of("FENCE_HEARD", 1, ""); heard; heard = next_of("FENCE_HEARD", heard + 1, "")) {
		lost = last_of("LOST", heard, queue[heard])
		before = last_of("SENT", lost, "")
		sent = next_of("SENT", heard, "")
		if (!before || !sent || queue[before] != queue[lost] || happens_between("HEARD", before, lost, ""))
			continue
		if (queue[sent] == queue[lost] && stays_up(queue[sent], heard, sent))
			return move(sent, heard)
	}
	return 0
}

# F5: a write is sent in a new epoch before the volume is open.
function fence_sent_unopened(    renew, opened, sent) {
	for (renew = next_of("RENEW", 1, ""); renew; renew = next_of("RENEW", renew + 1, "")) {
		opened = next_of("OPEN_HEARD", renew, "")
		sent = next_of("SENT", renew, "")
		if (opened && sent && stays_up(queue[sent], opened, sent))
			return move(sent, opened)
	}
	return 0
}

# F6: a target serves, and a write of its predecessor is still with the disk.
function fence_served_early(    serve, land, store) {
	for (serve = next_of("SERVE", 1, ""); serve; serve = next_of("SERVE", serve + 1, "")) {
		land = last_of("LAND", serve, "")
		store = land ? last_of("STORE", land, "") : 0
		if (store && last_of("KILL", land, "") > store)
			return move(serve, land)
	}
	return 0
}

# F5: an incarnation is accepted that is not above the last one.
function fence_login_stale(    first, accept) {
	first = next_of("ACCEPT", 1, 0)
	accept = first ? next_of("ACCEPT", first + 1, 0) : 0
	if (!accept || x[accept] != x[first])
		return 0
	y[accept] = y[first]
	return print_without(0)
}

# An older write lands once more, over a newer one.
function fence_stale_write(    i, old, land) {
	old = next_of("LAND", 1, "")
	land = old ? next_of("LAND", old + 1, "") : 0
	if (!land || x[land] == x[old])
		return 0
	for (i = 1; i <= count; i++) {
		print_event(i)
		if (i == land)
			print_event(old)
	}
	return 1
}

# A write is acknowledged that was never stored.
function fence_never_landed(    land) {
	for (land = next_of("LAND", 1, ""); land; land = next_of("LAND", land + 1, ""))
		if (event[land + 1] == "REPLY" && event[land + 2] == "HEARD")
			return print_without(land)
	return 0
}

# A write is answered, and the target has said nothing.
function fence_never_answered(    reply) {
	reply = next_of("REPLY", 1, "")
	return reply && event[reply + 1] == "HEARD" ? print_without(reply) : 0
}

# A write is sent on a connection that is lost.
function fence_sent_when_lost(    lost, sent) {
	for (lost = next_of("LOST", 1, ""); lost; lost = next_of("LOST", lost + 1, "")) {
		sent = next_of("SENT", lost, "")
		if (sent && queue[sent] == queue[lost])
			return move(sent, lost + 1)
	}
	return 0
}

# -- durable.pml --------------------------------------------------------------------------------

# A FLUSH succeeds, and the disk has not been asked.
function durable_flush_dropped(    sync) {
	sync = next_of("SYNC", 1, "")
	return sync && event[sync + 1] == "HEARD_FLUSH" ? print_without(sync) : 0
}

# F7: where a FLUSH is refused, because acknowledged writes may be lost, it is done.
function durable_loss_forgotten(    i, refused) {
	for (refused = next_of("REFUSED", 1, ""); refused; refused = next_of("REFUSED", refused + 1, ""))
		if (event[last_of("OPEN|SHUT|KILL", refused, "")] == "OPEN")
			break
	for (i = 1; i <= count && refused; i++)
		if (i != refused)
			print_event(i)
		else
			print "BEGIN_FLUSH 0 0 0\nSENT_FLUSH 0 0 0\nSYNC 0 0 0\nHEARD_FLUSH 0 0 0"
	return refused
}

# F7: FLUSH fails once, and succeeds then, though nobody has said that he knows.
function durable_told_once(    known) {
	known = next_of("KNOWN", 1, "")
	return known && next_of("BEGIN_FLUSH|REFUSED|KILL", known, "") &&
	       event[next_of("BEGIN_FLUSH|REFUSED|KILL", known, "")] == "BEGIN_FLUSH" ? print_without(known) : 0
}

# A command that is answered is sent again.
function durable_done_twice(    i, heard) {
	heard = next_of("HEARD", 1, "")
	for (i = 1; i <= count && heard; i++) {
		print_event(i)
		if (i == heard)
			print "SENT", 0, x[heard], 0
	}
	return heard
}

# A write is acknowledged that was never stored.
function durable_never_landed(    land) {
	for (land = next_of("LAND", 1, ""); land; land = next_of("LAND", land + 1, ""))
		if (event[land + 1] == "REPLY" && event[land + 2] == "HEARD")
			return print_without(land)
	return 0
}

# A command is sent before the volume is open again.
function durable_sent_early(    shut, open, sent) {
	for (shut = next_of("SHUT", 1, ""); shut; shut = next_of("SHUT", shut + 1, "")) {
		open = next_of("OPEN", shut, "")
		sent = open + 1
		while (event[sent] ~ /^AT/) # domain.pml's, which says where it is open
			sent++
		if (open && event[sent] ~ /^SENT/)
			return move(sent, open)
	}
	return 0
}

# The disk is given data of a command that is over (F4): the next write has the buffer.
function durable_stale_data(    begin) {
	begin = next_of("BEGIN", 1, "")
	begin = begin ? next_of("BEGIN", begin + 1, "") : 0
	begin = begin ? next_of("STORE", begin, "") : 0
	if (!begin)
		return 0
	x[begin] = x[next_of("BEGIN", 1, "")]
	return print_without(0)
}

# -- domain.pml ---------------------------------------------------------------------------------

# F10: the volume is used at the other target, which serves beside the first.
function domain_stranger_used(    serve, at) {
	serve = next_of("SERVE", 1, 1)
	at = serve ? next_of("AT", serve, 0) : 0
	if (!at || happens_between("KILL", 0, at, ""))
		return 0
	queue[at] = 1
	return print_without(0)
}

# F6: a target serves, and a write of the one before it on its machine is still with the disk.
function domain_served_early(    serve, land, store) {
	for (serve = next_of("SERVE", 1, ""); serve; serve = next_of("SERVE", serve + 1, "")) {
		land = last_of("LAND", serve, "")
		store = land ? last_of("STORE", land, "") : 0
		if (store && x[store] == x[land] && y[land] == queue[serve] && last_of("KILL", land, y[land]) > store)
			return move(serve, land)
	}
	return 0
}

# F5: a write goes, and one of the lost connection is still with the disk.
function domain_sent_early(    at, land, sent, store) {
	for (land = next_of("LAND", 1, ""); land; land = next_of("LAND", land + 1, "")) {
		store = last_of("STORE", land, "")
		at = last_of("AT", land, "")
		sent = next_of("SENT", land, "")
		if (store && at > store && x[store] == x[land] && y[land] == queue[at] && last_of("SHUT", at, "") > store && sent &&
		    !happens_between("KILL|SERVE|SHUT|AT", at + 1, sent, ""))
			return move(sent, land)
	}
	return 0
}

# An older write lands once more, over a newer one.
function domain_stale_write() {
	return fence_stale_write()
}

# A write is acknowledged that was never stored.
function domain_never_landed(    land) {
	for (land = next_of("LAND", 1, ""); land; land = next_of("LAND", land + 1, ""))
		if (event[land + 1] == "REPLY" && event[land + 2] == "HEARD")
			return print_without(land)
	return 0
}
