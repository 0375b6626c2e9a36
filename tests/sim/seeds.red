# Seeds that have found a mistake, of the product or of the simulator, and run in every run since.
493		# the module sent OPEN before AUTHENTICATE was done
201		# with clang: F7 and an open that need not know
2192		# F7, failed syncs and a new start of the target
640870775	# a fence that belonged to the machine's session before
640874315	# bits that flipped in all four attempts of one WRITE
640894927	# a condition that takes a lock missed its wake-up
20499		# a COMPARE_AND_WRITE whose volume is fenced before its queue pair is drained
22468		# the module closed the handle of a volume that was to come, and left that of the one that was replaced
100006511	# a killed target that took a connection on its way out
100010735	# a queue was lost again between its choice for a RESERVE and the sending
300004319	# librblk reserved a volume that was gone
300300295	# a later loss of a queue was taken for one that a RESERVE waits for
1020		# with kicks: a volume opened anew within a call that waited, judged by when it was seen
1475		# with kicks: a fence of a queue, and the next epoch's queue of that number
400002073	# a session that was kicked before its first acceptance was seen
2000008917	# a request that fails when its queue was fenced, and has been lost again
1000012374	# one disk's FLUSH covers the writes of another of the same volume
2000014451	# librblk: aborted while its volume's OPEN, which is its fence, waits
1000017065	# a disk took its limits while no queue was live
1000045311	# a reservation whose holder finds no room for its queue 0
2000025140	# a volume that was given up while it was verified
1000053252	# a disk that is late in a new epoch goes on when it is open
6000000355	# librblk: called back as lost, as its volume was removed
6000019095	# a second program's RESERVE on a disk that was detached meanwhile
6000011822	# keepalive 0: a target lost its power while it owed a FENCE's answer, and nobody asked
7000040903	# a RESERVE that ended with its session was counted as one that the target had failed
7200053506	# a FLUSH of a volume that had turned read-only, and lost nothing
7200009473	# a world without faults loses no power
8200017258	# a world without faults loses no power
8300030247	# a FLUSH after the last program has closed a disk that was detached
7300038212	# a write that a reservation cut short is answered ABORTED
7400021615	# a session of the module whose last one's network a program kept
8400033633	# librblk: an event to be confirmed, and commands before it that cannot be sent: its wait was no wait
7500024612	# a RESERVE of a killed raw initiator was done after a report had told all
7500031903	# a FENCE of all volumes is one of those, too, that have no disk just then
8520056208	# a reserver that waited for ever for a killed program, which its target could not miss
20498		# the oracle: what a shut out writer does at an OSD to which nobody behind the fence has spoken
236075044636	# a portal that no queue tried any more after queue 0 had been to another target
154570671295	# the model: a session that does not reconnect took queues beside queue 0 back, with what they had
4146		# the oracle: whom a change excludes that nobody heard of, as a report tells, may still have writes under way
28754		# NVMe hosts of gateways: a controller that a silent cluster has kept from its OPEN, and others from theirs
49490		# NVMe hosts: threads woken for an abort never slept again where they had one connection each
