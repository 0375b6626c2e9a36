/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Locks of kernel.h, which assert that they are used as the kernel's are, and references likewise. */
#include "tests/sim/kernel/kernel.h"

#include "tests/sim/fiber.h"

void spin_lock(spinlock_t *lock)
{
	if (lock->owner)
		sim_fail("the kernel: a spinlock is taken that is held");
	lock->owner = sim_context();
	sim_fiber_pin();
}

void sim_spin_drop(spinlock_t *lock)
{
	if (lock->owner != sim_context())
		sim_fail("the kernel: a spinlock is released by who does not hold it");
	lock->owner = NULL;
	sim_fiber_unpin();
}

void spin_unlock(spinlock_t *lock)
{
	sim_spin_drop(lock);
	sim_fiber_preempt();
}

bool spin_trylock(spinlock_t *lock)
{
	if (lock->owner)
		return false;
	spin_lock(lock);
	return true;
}

void mutex_lock(struct mutex *mutex)
{
	sim_might_sleep(__func__);
	if (mutex->owner == sim_context())
		sim_fail("the kernel: a mutex is taken by who holds it");
	while (mutex->owner)
		sim_sleep_on(mutex, UINT64_MAX);
	mutex->owner = sim_context();
}

void mutex_unlock(struct mutex *mutex)
{
	if (mutex->owner != sim_context())
		sim_fail("the kernel: a mutex is released by who does not hold it");
	mutex->owner = NULL;
	sim_wake(mutex);
}

bool refcount_dec_and_test(refcount_t *r)
{
	if (!r->value)
		sim_fail("the kernel: a reference is put that nobody has");
	return !--r->value;
}
