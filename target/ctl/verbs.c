/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The table of verbs and their options: for main.c, options.c and completion.c. */
#include "target/ctl/ctl.h"

#define VALUE(name) offsetof(struct ctl_values, name)

static const struct ctl_option option_socket = {
	"socket", 's', CTL_OPTION_TEXT, VALUE(socket), 0, 0, "PATH", NULL,
	"the control socket of rblkd (default: " CTL_SOCKET ")"};
static const struct ctl_option option_json = {
	"json", 'j', CTL_OPTION_FLAG, VALUE(json), 0, 0, NULL, NULL, "print JSON"};
static const struct ctl_option option_help = {
	"help", 'h', CTL_OPTION_FLAG, VALUE(help), 0, 0, NULL, NULL, "show this help"};
static const struct ctl_option option_interval = {
	"interval", 'i', CTL_OPTION_TIME, VALUE(interval_ms), 100, 3600000, "TIME", NULL,
	"time between two tables (default: 2s)"};
static const struct ctl_option option_count = {
	"count", 'n', CTL_OPTION_NUMBER, VALUE(count), 1, 1000000000, "COUNT", NULL,
	"end after so many tables"};
static const struct ctl_option option_sort = {
	"sort", 'S', CTL_OPTION_TEXT, VALUE(sort), 0, 0, "KEY", CTL_SORTS,
	"order of the rows (default: iops)"};
static const struct ctl_option option_filter = {
	"filter", 'f', CTL_OPTION_TEXT, VALUE(filter), 0, 0, "TEXT", NULL,
	"only rows whose volume or initiator contains this"};

static const struct ctl_option option_force = {
	"force", 'f', CTL_OPTION_FLAG, VALUE(force), 0, 0, NULL, NULL, "even if something is lost"};

static const struct ctl_option *const options_force[] = {
	&option_socket, &option_json, &option_force, &option_help, NULL};
static const struct ctl_option option_follow = {
	"follow", 'f', CTL_OPTION_FLAG, VALUE(follow), 0, 0, NULL, NULL, "go on with each new one"};

static const struct ctl_option option_all = {
	"all", 'a', CTL_OPTION_FLAG, VALUE(all), 0, 0, NULL, NULL, "defaults, too"};
static const struct ctl_option *const options_all[] = {
	&option_socket, &option_json, &option_all, &option_help, NULL};

static const struct ctl_option option_level = {
	"level", 'l', CTL_OPTION_TEXT, VALUE(level), 0, 0, "LEVEL", "error warning info debug",
	"only those of this level, or more important ones"};
static const struct ctl_option option_volume = {
	"volume", 'v', CTL_OPTION_TEXT, VALUE(volume), 0, 0, "NAME", NULL, "only those about this volume"};
static const struct ctl_option option_initiator = {
	"initiator", 'i', CTL_OPTION_TEXT, VALUE(initiator), 0, 0, "NAME", NULL, "only those about this initiator"};
static const struct ctl_option option_since = {
	"since", 't', CTL_OPTION_TIME, VALUE(since_ms), 1000, 31536000000, "TIME", NULL,
	"only those of this last time: 10min"};
static const struct ctl_option option_each = {
	"each", 'e', CTL_OPTION_FLAG, VALUE(each), 0, 0, NULL, NULL, "like ones in a line each"};
static const struct ctl_option *const options_events[] = {
	&option_socket, &option_json, &option_follow, &option_level, &option_volume,
	&option_initiator, &option_since, &option_each, &option_help, NULL};
static const struct ctl_option *const options_common[] = {
	&option_socket, &option_json, &option_help, NULL};
static const struct ctl_option *const options_top[] = {
	&option_socket, &option_json,	&option_interval, &option_count,
	&option_sort,	&option_filter, &option_help,	  NULL};

const struct ctl_verb ctl_verbs[] = {
	{"status", "", NULL, "what the daemon is and how it does", 0, options_common, ctl_status},
	{"sessions", "", NULL, "who is connected", 0, options_common, ctl_sessions},
	{"volumes", "", NULL, "what is served, and what was done with it", 0, options_common,
	 ctl_volumes},
	{"top", "", NULL, "a live table of who does how much with which volume", 0, options_top,
	 ctl_top},
	{"events", "", NULL, "what has happened", 0, options_events, ctl_events},
	{"log-level", "[LEVEL]", "error warning info debug", "show or change the level of the log",
	 1, options_common, ctl_log_level},
	{"add", "volume|initiator NAME KEY=VALUE...", NULL,
	 "add a volume, or an initiator's rights", 1024, options_common, ctl_add},
	{"set", "target|volume|initiator [NAME] KEY=VALUE...", NULL, "change settings", 1024,
	 options_force, ctl_set},
	{"remove", "volume|initiator NAME", NULL, "remove a volume, or an initiator's rights", 2,
	 options_force, ctl_remove},
	{"reload", "", NULL, "read the configuration files again", 0, options_force, ctl_reload},
	{"save", "", NULL, "write the configuration files", 0, options_force, ctl_save},
	{"show", "", NULL, "the configuration that is in force", 0, options_all, ctl_settings},
	{"diff", "", NULL, "how that differs from the configuration files", 0, options_common, ctl_diff},
	{"reservations", "[VOLUME]", NULL, "who has registered with volumes, and holds their reservations", 1, options_common,
	 ctl_reservations},
	{"clear", "VOLUME", NULL, "clear a volume's reservation and registrations", 1, options_force, ctl_clear},
	{"kick", "INITIATOR|SESSION", NULL, "end an initiator's sessions, or one session", 1,
	 options_common, ctl_kick},
	{"move", "VOLUME", NULL, "send a volume's sessions to another target of it", 1, options_force, ctl_move},
	{"drain", "", NULL, "finish what is in flight and stop the daemon", 0, options_common,
	 ctl_drain},
	{NULL, NULL, NULL, NULL, 0, NULL, NULL},
};
