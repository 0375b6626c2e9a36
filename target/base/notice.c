/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The ring of notices, see notice.h. No lock is held for longer than a copy of one. */
#include "target/base/notice.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include "proto/core/env.h"

#define WINDOW_NS 1000000000u

/* The ids are random, and never change: journals are searched for them. */
static const struct notice_kind {
	const char *name, *id;
} kinds[] = {
	[TGT_NOTICE_READY] = {"ready", "aaf20398ee1e45fcb5a8099eb12a599c"},
	[TGT_NOTICE_DRAINING] = {"draining", "8e4f1a9f8e93485593f9eadcb3b9a908"},
	[TGT_NOTICE_SESSION_NAMED] = {"session_named", "4e9ec45f671047fa8295222945241c0f"},
	[TGT_NOTICE_SESSION_ENDED] = {"session_ended", "1840a1f880d04bafb5720e6a7f97f254"},
	[TGT_NOTICE_CONNECTION_LOST] = {"connection_lost", "52b10dc8e01a4176b75005f911b2faad"},
	[TGT_NOTICE_VIOLATION] = {"violation", "0f44b1a2f0a84733ae318028d49ef851"},
	[TGT_NOTICE_REFUSED] = {"refused", "be270ebc371847908497194b8f6b5462"},
	[TGT_NOTICE_IO_FAILED] = {"io_failed", "17e200b5bc1946939a97e263f122e069"},
	[TGT_NOTICE_WRITES_LOST] = {"writes_lost", "7cbf7289a4a54283ade23603e5710975"},
	[TGT_NOTICE_FLUSH_AGAIN] = {"flush_again", "4d6f128e9c3e41738bc99947fc238f3b"},
	[TGT_NOTICE_VOLUME_ADDED] = {"volume_added", "dab2b1a06e9f49a98106a7a6c61528ec"},
	[TGT_NOTICE_VOLUME_REMOVED] = {"volume_removed", "f2e51860223549a783614103a7ab4785"},
	[TGT_NOTICE_VOLUME_CHANGED] = {"volume_changed", "eab5fe623c4b4fb8a31bc70cb25c1066"},
	[TGT_NOTICE_RELOAD_FAILED] = {"reload_failed", "a31674c1f2d44a4181e9de03bd12881b"},
	[TGT_NOTICE_REACTOR_HANGS] = {"reactor_hangs", "909a609946fd4b489a4130f75d4ce533"},
	[TGT_NOTICE_DEVICE_REMOVED] = {"device_removed", "916a85ef87174c44958d6c4d313e9b5c"},
};
static_assert(sizeof(kinds) / sizeof(kinds[0]) == TGT_NOTICES, "every kind has a name");

struct notice_window {
	uint64_t begun_ns;
	unsigned int used, suppressed;
};

/* `lock` owns all of it. */
static struct {
	pthread_mutex_t lock;
	uint64_t last; /* number; that notice is at last % TGT_NOTICES_MAX */
	int wake;      /* eventfd, -1: none */
	struct notice_window windows[TGT_NOTICES];
	struct tgt_notice ring[TGT_NOTICES_MAX];
} notices = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = -1};

/* What does not fit is cut off. */
static void text_keep(char *to, size_t bytes, const char *from)
{
	size_t length = from ? strnlen(from, bytes - 1) : 0;

	if (length)
		memcpy(to, from, length);
	to[length] = '\0';
}

/* Lock held. */
static bool window_takes(struct notice_window *window, uint64_t now_ns)
{
	if (!window->begun_ns || now_ns - window->begun_ns >= WINDOW_NS) {
		window->begun_ns = now_ns;
		window->used = 0;
	}
	if (window->used >= TGT_NOTICES_BURST) {
		window->suppressed++;
		return false;
	}
	window->used++;
	return true;
}

static uint64_t time_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void notice_keep(const struct tgt_notice_about *about, enum tgt_log_level level,
			const char *message)
{
	struct notice_window *window = &notices.windows[about->kind];
	uint64_t now_ns = env_now_ns(), time_ns = time_now_ns();
	struct tgt_notice *notice;

	pthread_mutex_lock(&notices.lock);
	if (window_takes(window, now_ns)) {
		notice = &notices.ring[++notices.last % TGT_NOTICES_MAX];
		notice->number = notices.last;
		notice->time_ns = time_ns;
		notice->kind = about->kind;
		notice->level = level;
		notice->error = about->error;
		notice->suppressed = window->suppressed;
		window->suppressed = 0;
		text_keep(notice->volume, sizeof(notice->volume), about->volume);
		text_keep(notice->initiator, sizeof(notice->initiator), about->initiator);
		text_keep(notice->address, sizeof(notice->address), about->address);
		text_keep(notice->message, sizeof(notice->message), message);
		if (notices.wake >= 0)
			eventfd_write(notices.wake, 1);
	}
	pthread_mutex_unlock(&notices.lock);
}

void tgt_notice(const struct tgt_notice_about *about, struct tgt_log_limit *limit,
		enum tgt_log_level level, const char *format, ...)
{
	char message[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	if (limit)
		tgt_log_limited(limit, level, "%s", message);
	else
		tgt_log(level, "%s", message);
	notice_keep(about, level, message);
}

/* The first one after this number; it may be gone, and then it is the oldest. */
static bool notice_next(uint64_t after, struct tgt_notice *out)
{
	uint64_t oldest;
	bool any;

	pthread_mutex_lock(&notices.lock);
	any = after < notices.last;
	oldest = notices.last > TGT_NOTICES_MAX ? notices.last - TGT_NOTICES_MAX + 1 : 1;
	if (any)
		*out = notices.ring[(after + 1 > oldest ? after + 1 : oldest) % TGT_NOTICES_MAX];
	pthread_mutex_unlock(&notices.lock);
	return any;
}

unsigned int tgt_notices_after(uint64_t after, struct tgt_notice *out, unsigned int max)
{
	unsigned int count = 0;

	while (count < max && notice_next(after, &out[count]))
		after = out[count++].number;
	return count;
}

uint64_t tgt_notices_last(void)
{
	uint64_t last;

	pthread_mutex_lock(&notices.lock);
	last = notices.last;
	pthread_mutex_unlock(&notices.lock);
	return last;
}

void tgt_notices_wake(int eventfd)
{
	pthread_mutex_lock(&notices.lock);
	notices.wake = eventfd;
	pthread_mutex_unlock(&notices.lock);
}

const char *tgt_notice_name(enum tgt_notice_kind kind)
{
	return kinds[kind].name;
}

const char *tgt_notice_id(enum tgt_notice_kind kind)
{
	return kinds[kind].id;
}
