/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kernel's doubly linked lists, as kmod/ uses them. */
#ifndef RBLK_TESTS_SIM_KERNEL_LIST_H
#define RBLK_TESTS_SIM_KERNEL_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list_head {
	struct list_head *next, *prev;
};

#define LIST_HEAD_INIT(name) { &(name), &(name) }
#define LIST_HEAD(name) struct list_head name = LIST_HEAD_INIT(name)

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list->prev = list;
}

static inline bool list_empty(const struct list_head *list)
{
	return list->next == list;
}

static inline bool list_is_singular(const struct list_head *list)
{
	return !list_empty(list) && list->next == list->prev;
}

static inline void sim_list_insert(struct list_head *entry, struct list_head *prev,
				   struct list_head *next)
{
	entry->prev = prev;
	entry->next = next;
	prev->next = next->prev = entry;
}

static inline void list_add(struct list_head *entry, struct list_head *list)
{
	sim_list_insert(entry, list, list->next);
}

static inline void list_add_tail(struct list_head *entry, struct list_head *list)
{
	sim_list_insert(entry, list->prev, list);
}

/* An entry that is on no list any more is not followed. */
static inline void list_del(struct list_head *entry)
{
	entry->next->prev = entry->prev;
	entry->prev->next = entry->next;
	entry->next = entry->prev = NULL;
}

static inline void list_del_init(struct list_head *entry)
{
	list_del(entry);
	INIT_LIST_HEAD(entry);
}

static inline void list_move_tail(struct list_head *entry, struct list_head *list)
{
	list_del(entry);
	list_add_tail(entry, list);
}

#define list_entry(pointer, type, member) container_of(pointer, type, member)
#define list_first_entry(list, type, member) list_entry((list)->next, type, member)
#define list_first_entry_or_null(list, type, member) \
	(list_empty(list) ? NULL : list_first_entry(list, type, member))
#define list_for_each_entry(at, list, member) \
	for ((at) = list_first_entry(list, __typeof__(*(at)), member); &(at)->member != (list); \
	     (at) = list_entry((at)->member.next, __typeof__(*(at)), member))
#define list_for_each_entry_safe(at, after, list, member) \
	for ((at) = list_first_entry(list, __typeof__(*(at)), member), \
	     (after) = list_entry((at)->member.next, __typeof__(*(at)), member); \
	     &(at)->member != (list); \
	     (at) = (after), (after) = list_entry((after)->member.next, __typeof__(*(at)), member))

#endif
