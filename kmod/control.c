// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * /dev/rblk-control: one readable line is written, an errno answers it, and one line of text can
 * be read back from the same open file. For CAP_SYS_ADMIN.
 *
 *	attach address=10.9.0.1[,10.9.1.1...] volume=disk [port=4430[,4431...]] [queues=N]
 *	       [poll_queues=N] [credits=N] [initiator=NAME] [key=NAME] [connect_ms=N] [command_ms=N]
 *	       [reconnect_ms=N] [fail_fast_ms=N] [give_up_ms=N] [read_only] [volatile]
 *	       [own_session] [digest] [source=10.9.0.2[,10.9.1.2...]] [tos=N] [ack_timeout=N]
 *	       [name=NAME] [uri=URI]
 *	detach device=rblk0 [force]
 *	keyring                       answers the number of the keyring that key= is in
 */
#include <linux/fs.h>
#include <linux/inet.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/parser.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/utsname.h>

#include "kmod/attach_limits.h"
#include "kmod/disk.h"
#include "kmod/key.h"
#include "kmod/module.h"
#include "proto/wire/wire_check.h"

/*
 * One open of the control device. lock owns the rest. It keeps its own place in the text: the
 * file's position is stored only after a write that succeeds, and what a refused one says is to be
 * read, too.
 */
struct rblk_control {
	struct mutex lock; /* one line at a time */
	loff_t read_at;
	char text[RBLK_TEXT_BYTES + 1];
};

enum rblk_key {
	KEY_ADDRESS, KEY_PORT, KEY_VOLUME, KEY_QUEUES, KEY_CREDITS, KEY_INITIATOR,
	KEY_POLL_QUEUES, KEY_CONNECT_MS, KEY_COMMAND_MS, KEY_GIVE_UP_MS, KEY_READ_ONLY,
	KEY_RECONNECT_MS, KEY_FAIL_FAST_MS, KEY_VOLATILE, KEY_OWN_SESSION, KEY_KEY, KEY_DIGEST,
	KEY_SOURCE, KEY_TOS, KEY_ACK_TIMEOUT, KEY_NAME, KEY_URI, KEY_ERROR
};

static const match_table_t rblk_keys = {
	{ KEY_ADDRESS, "address=%s" },	     { KEY_PORT, "port=%s" },
	{ KEY_VOLUME, "volume=%s" },	     { KEY_QUEUES, "queues=%s" },
	{ KEY_CREDITS, "credits=%s" },	     { KEY_INITIATOR, "initiator=%s" },
	{ KEY_CONNECT_MS, "connect_ms=%s" }, { KEY_COMMAND_MS, "command_ms=%s" },
	{ KEY_GIVE_UP_MS, "give_up_ms=%s" }, { KEY_READ_ONLY, "read_only" },
	{ KEY_POLL_QUEUES, "poll_queues=%s" },   { KEY_VOLATILE, "volatile" },
	{ KEY_RECONNECT_MS, "reconnect_ms=%s" }, { KEY_FAIL_FAST_MS, "fail_fast_ms=%s" },
	{ KEY_OWN_SESSION, "own_session" },   { KEY_KEY, "key=%s" },
	{ KEY_DIGEST, "digest" },	     { KEY_SOURCE, "source=%s" },
	{ KEY_TOS, "tos=%s" },		     { KEY_ACK_TIMEOUT, "ack_timeout=%s" },
	{ KEY_NAME, "name=%s" },	     { KEY_URI, "uri=%s" },
	{ KEY_ERROR, NULL },
};

/* Where each number goes, and what it may be. */
static const struct {
	size_t offset;
	unsigned int min, max;
} rblk_numbers[] = {
	[KEY_QUEUES] = { offsetof(struct rblk_session_options, queues), 1, RBLK_QUEUES_MAX },
	[KEY_POLL_QUEUES] = { offsetof(struct rblk_session_options, poll_queues), 0,
			     RBLK_QUEUES_MAX - 1 },
	[KEY_CREDITS] = { offsetof(struct rblk_session_options, credits), RBLK_CREDITS_MIN,
			 RBLK_CREDITS_MAX },
	[KEY_CONNECT_MS] = { offsetof(struct rblk_session_options, connect_ms),
			    RBLK_ATTACH_WAIT_MS_MIN, RBLK_ATTACH_WAIT_MS_MAX },
	[KEY_COMMAND_MS] = { offsetof(struct rblk_session_options, command_ms),
			    RBLK_ATTACH_WAIT_MS_MIN, RBLK_ATTACH_WAIT_MS_MAX },
	[KEY_RECONNECT_MS] = { offsetof(struct rblk_session_options, reconnect_ms),
			      RBLK_ATTACH_RECONNECT_MS_MIN, RBLK_ATTACH_WAIT_MS_MAX },
	[KEY_FAIL_FAST_MS] = { offsetof(struct rblk_session_options, fail_fast_ms), 0,
			      RBLK_ATTACH_GIVE_UP_MS_MAX },
	[KEY_GIVE_UP_MS] = { offsetof(struct rblk_session_options, give_up_ms), 0,
			    RBLK_ATTACH_GIVE_UP_MS_MAX },
	[KEY_TOS] = { offsetof(struct rblk_session_options, tos), 0, RBLK_ATTACH_TOS_MAX },
	[KEY_ACK_TIMEOUT] = { offsetof(struct rblk_session_options, ack_timeout), 0,
			     RBLK_ATTACH_ACK_TIMEOUT_MAX },
};

static int rblk_control_number(struct rblk_session_options *o, enum rblk_key key,
			       unsigned int value, const char *word, char *text)
{
	if (value < rblk_numbers[key].min || value > rblk_numbers[key].max) {
		scnprintf(text, RBLK_TEXT_BYTES, "attach: %.64s: must be from %u to %u", word,
			  rblk_numbers[key].min, rblk_numbers[key].max);
		return -ERANGE;
	}
	*(unsigned int *)((u8 *)o + rblk_numbers[key].offset) = value;
	return 0;
}

static int rblk_control_name(char name[RBLK_NAME_BYTES], const char *value, const char *word,
			     char *text)
{
	memset(name, 0, RBLK_NAME_BYTES);
	if (strlen(value) >= RBLK_NAME_BYTES) {
		scnprintf(text, RBLK_TEXT_BYTES, "attach: %.80s: longer than %u characters", word,
			  RBLK_NAME_BYTES - 1);
		return -ENAMETOOLONG;
	}
	strscpy(name, value, RBLK_NAME_BYTES);
	if (rblk_name_valid(name))
		return 0;
	scnprintf(text, RBLK_TEXT_BYTES, "attach: %.80s: letters, digits and ._:+- only", word);
	return -EINVAL;
}

/* The value must be printable. It has no blanks, since it is a word of the line. */
static int rblk_control_print(char *to, size_t bytes, const substring_t *value, const char *word,
			      char *text)
{
	const char *c;

	if (match_strlcpy(to, value, bytes) >= bytes) {
		scnprintf(text, RBLK_TEXT_BYTES, "attach: %.80s...: longer than %zu characters",
			  word, bytes - 1);
		return -ENAMETOOLONG;
	}
	for (c = to; *c > ' ' && *c < 0x7f; c++)
		;
	if (*to && !*c)
		return 0;
	scnprintf(text, RBLK_TEXT_BYTES, "attach: %.*s=: empty, or not printable",
		  (int)strcspn(word, "="), word);
	return -EINVAL;
}

/*
 * Words of an attach line that belong together: addresses, and the port and the source of each, or
 * one for all.
 */
struct rblk_control_portals {
	char addresses[CORE_PORTALS_MAX * 64];
	char ports[CORE_PORTALS_MAX * 8];
	char sources[CORE_PORTALS_MAX * 64];
};

static int rblk_control_port(const char *port, char *text)
{
	unsigned int number;

	if (kstrtouint(port, 10, &number)) {
		scnprintf(text, RBLK_TEXT_BYTES, "attach: port=%.64s: not a number", port);
		return -EINVAL;
	}
	if (number >= 1 && number <= U16_MAX)
		return 0;
	scnprintf(text, RBLK_TEXT_BYTES, "attach: port=%.64s: must be from 1 to 65535", port);
	return -ERANGE;
}

static int rblk_control_portal(struct rblk_portal *portal, const char *address, const char *port,
			       char *text)
{
	int error = rblk_control_port(port, text);

	if (error)
		return error;
	error = inet_pton_with_scope(current->nsproxy->net_ns, AF_UNSPEC, address, port,
				     &portal->address);
	if (error)
		scnprintf(text, RBLK_TEXT_BYTES, "attach: address=%.80s: not a numeric address",
			  address);
	else
		snprintf(portal->text, sizeof(portal->text), "%pISpc", &portal->address);
	return error;
}

static int rblk_control_portals(struct rblk_session_options *o, struct rblk_control_portals *words,
				char *text)
{
	char *addresses = words->addresses, *ports = words->ports, *address, *port = NULL;
	int error;

	while ((address = strsep(&addresses, ","))) {
		port = ports ? strsep(&ports, ",") : port;
		if (o->portal_count == CORE_PORTALS_MAX) {
			scnprintf(text, RBLK_TEXT_BYTES, "attach: more than %u addresses",
				  CORE_PORTALS_MAX);
			return -E2BIG;
		}
		error = rblk_control_portal(&o->portals[o->portal_count++], address, port, text);
		if (error)
			return error;
	}
	if (!ports)
		return 0;
	scnprintf(text, RBLK_TEXT_BYTES, "attach: more ports than addresses");
	return -EINVAL;
}

static int rblk_control_source(struct rblk_portal *portal, const char *source, char *text)
{
	int error = inet_pton_with_scope(current->nsproxy->net_ns, portal->address.ss_family,
					 source, NULL, &portal->source);

	if (error)
		scnprintf(text, RBLK_TEXT_BYTES,
			  "attach: source=%.80s: no numeric address of the family of %.64s", source,
			  portal->text);
	return error;
}

/* Those of further addresses begin with the first again. */
static int rblk_control_sources(struct rblk_session_options *o, const char *sources, char *text)
{
	const char *at = sources;
	bool surplus = false;
	char source[64];
	unsigned int i;
	int error = 0;

	for (i = 0; *sources && i < o->portal_count && !error; i++) {
		size_t length = strcspn(at, ",");

		strscpy(source, at, min(length + 1, sizeof(source)));
		error = rblk_control_source(&o->portals[i], source, text);
		at = at[length] ? at + length + 1 : sources;
		surplus = at != sources;
	}
	if (error || !surplus)
		return error;
	scnprintf(text, RBLK_TEXT_BYTES, "attach: more sources than addresses");
	return -EINVAL;
}

static int rblk_control_list(char *list, size_t bytes, const substring_t *value, const char *word,
			     char *text)
{
	if (match_strlcpy(list, value, bytes) < bytes)
		return 0;
	scnprintf(text, RBLK_TEXT_BYTES, "attach: %.80s...: too long", word);
	return -E2BIG;
}

/* One word of an attach line. */
static int rblk_control_word(struct rblk_options *o, char *word,
			     struct rblk_control_portals *portals, char *text)
{
	substring_t args[MAX_OPT_ARGS];
	char value[RBLK_NAME_BYTES + 64];
	int key = match_token(word, rblk_keys, args);
	unsigned int number;

	switch (key) {
	case KEY_ADDRESS:
		return rblk_control_list(portals->addresses, sizeof(portals->addresses), &args[0],
					 word, text);
	case KEY_PORT:
		return rblk_control_list(portals->ports, sizeof(portals->ports), &args[0], word,
					 text);
	case KEY_SOURCE:
		return rblk_control_list(portals->sources, sizeof(portals->sources), &args[0], word,
					 text);
	case KEY_VOLUME:
	case KEY_NAME:
	case KEY_INITIATOR:
		match_strlcpy(value, &args[0], sizeof(value));
		return rblk_control_name(key == KEY_VOLUME ? o->disk.volume :
					 key == KEY_NAME   ? o->disk.name :
							     o->session.initiator,
					 value, word, text);
	case KEY_URI:
		return rblk_control_print(o->disk.uri, sizeof(o->disk.uri), &args[0], word, text);
	case KEY_KEY:
		return rblk_control_print(o->session.key, sizeof(o->session.key), &args[0], word,
					  text);
	case KEY_READ_ONLY:
		o->disk.read_only = true;
		return 0;
	case KEY_OWN_SESSION:
		o->disk.own_session = true;
		return 0;
	case KEY_DIGEST:
		o->session.digest = 1;
		return 0;
	case KEY_VOLATILE:
		o->disk.accept_volatile = true;
		return 0;
	case KEY_ERROR:
		scnprintf(text, RBLK_TEXT_BYTES, "attach: \"%.64s\": unknown word", word);
		return -EINVAL;
	default:
		match_strlcpy(value, &args[0], sizeof(value));
		if (kstrtouint(value, 10, &number)) {
			scnprintf(text, RBLK_TEXT_BYTES, "attach: %.64s: not a number", word);
			return -EINVAL;
		}
		return rblk_control_number(&o->session, key, number, word, text);
	}
}

static void rblk_control_defaults(struct rblk_session_options *o)
{
	o->credits = RBLK_ATTACH_CREDITS;
	o->connect_ms = RBLK_ATTACH_CONNECT_S * MSEC_PER_SEC;
	o->command_ms = RBLK_ATTACH_COMMAND_S * MSEC_PER_SEC;
	o->reconnect_ms = RBLK_ATTACH_RECONNECT_S * MSEC_PER_SEC;
	o->fail_fast_ms = RBLK_ATTACH_FAIL_FAST_S * MSEC_PER_SEC;
	o->give_up_ms = RBLK_ATTACH_GIVE_UP_S * MSEC_PER_SEC;
	/*
	 * One that is cut short may be another host's, too. `rblk attach` knows of the machine's
	 * id.
	 */
	if (strscpy(o->initiator, utsname()->nodename, sizeof(o->initiator)) < 0 ||
	    !rblk_name_distinct(o->initiator)) {
		memset(o->initiator, 0, sizeof(o->initiator));
		strscpy(o->initiator, RBLK_NAME_UNNAMED, sizeof(o->initiator));
	}
}

static int rblk_control_options(char *line, struct rblk_options *o,
				struct rblk_control_portals *portals, char *text)
{
	char *word;
	int error = 0;

	rblk_control_defaults(&o->session);
	snprintf(portals->ports, sizeof(portals->ports), "%u", RBLK_DEFAULT_PORT);
	while (!error && (word = strsep(&line, " \t")))
		if (*word)
			error = rblk_control_word(o, word, portals, text);
	if (error)
		return error;
	if (!portals->addresses[0] || !o->disk.volume[0]) {
		scnprintf(text, RBLK_TEXT_BYTES, "attach: address= and volume= are needed");
		return -EINVAL;
	}
	/* Where queues= is left out, there are no more than leave room for these. */
	if (max(o->session.queues, 1u) + o->session.poll_queues > RBLK_QUEUES_MAX) {
		scnprintf(text, RBLK_TEXT_BYTES,
			  "attach: queues= and poll_queues=: must be at most %u together",
			  RBLK_QUEUES_MAX);
		return -ERANGE;
	}
	error = rblk_control_portals(&o->session, portals, text);
	return error ? error : rblk_control_sources(&o->session, portals->sources, text);
}

static int rblk_control_attach(char *line, char *text)
{
	struct rblk_options *o = kzalloc(sizeof(*o), GFP_KERNEL);
	struct rblk_control_portals *portals = kzalloc(sizeof(*portals), GFP_KERNEL);
	int error = -ENOMEM;

	if (o && portals)
		error = rblk_control_options(line, o, portals, text);
	kfree(portals);
	if (!error)
		error = rblk_disk_attach(o, text);
	kfree(o);
	return error;
}

static int rblk_control_detach(char *line, char *text)
{
	char *word, *name = NULL;
	bool force = false;

	while ((word = strsep(&line, " \t"))) {
		if (!*word)
			continue;
		if (!strncmp(word, "device=", 7)) {
			name = word + 7;
		} else if (!strcmp(word, "force")) {
			force = true;
		} else {
			scnprintf(text, RBLK_TEXT_BYTES, "detach: \"%.64s\": unknown word", word);
			return -EINVAL;
		}
	}
	if (!name) {
		scnprintf(text, RBLK_TEXT_BYTES, "detach: device= is needed");
		return -EINVAL;
	}
	return rblk_disk_detach(name, force, text);
}

static int rblk_control_line(char *line, size_t bytes, char *text)
{
	bool whole = strlen(line) == bytes; /* or a zero byte would hide the rest */
	char *verb;

	line = strim(line);
	if (!whole || !*line || strpbrk(line, "\n\r")) {
		scnprintf(text, RBLK_TEXT_BYTES, "expected one line");
		return -EINVAL;
	}
	verb = strsep(&line, " \t");
	if (!strcmp(verb, "attach"))
		return rblk_control_attach(line, text);
	if (!strcmp(verb, "detach"))
		return rblk_control_detach(line, text);
	if (!strcmp(verb, "keyring") && !line) {
		scnprintf(text, RBLK_TEXT_BYTES, "%d", rblk_keyring_serial());
		return 0;
	}
	scnprintf(text, RBLK_TEXT_BYTES, "\"%.32s\": expected attach, detach or keyring", verb);
	return -EINVAL;
}

static int rblk_control_open(struct inode *inode, struct file *file)
{
	struct rblk_control *control;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	control = kzalloc(sizeof(*control), GFP_KERNEL);
	if (!control)
		return -ENOMEM;
	mutex_init(&control->lock);
	file->private_data = control;
	return 0;
}

static int rblk_control_release(struct inode *inode, struct file *file)
{
	kfree(file->private_data);
	return 0;
}

static ssize_t rblk_control_write(struct file *file, const char __user *data, size_t bytes,
				  loff_t *pos)
{
	struct rblk_control *control = file->private_data;
	char *line;
	int error;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	mutex_lock(&control->lock);
	control->text[0] = '\0'; /* whatever fails, the answer is not an earlier line's */
	line = bytes <= RBLK_ATTACH_LINE_BYTES ? memdup_user_nul(data, bytes) : ERR_PTR(-E2BIG);
	error = PTR_ERR_OR_ZERO(line);
	if (!error) {
		error = rblk_control_line(line, bytes, control->text);
		kfree(line);
	} else if (error == -E2BIG) {
		scnprintf(control->text, RBLK_TEXT_BYTES, "a line is at most %u bytes",
			  RBLK_ATTACH_LINE_BYTES);
	} else if (error == -EFAULT) {
		scnprintf(control->text, RBLK_TEXT_BYTES, "the line cannot be read");
	}
	if (error == -ENOMEM && !control->text[0])
		scnprintf(control->text, RBLK_TEXT_BYTES, "out of memory");
	strlcat(control->text, "\n", sizeof(control->text));
	control->read_at = 0;
	mutex_unlock(&control->lock);
	return error ? error : bytes;
}

static ssize_t rblk_control_read(struct file *file, char __user *data, size_t bytes, loff_t *pos)
{
	struct rblk_control *control = file->private_data;
	ssize_t done;

	mutex_lock(&control->lock);
	done = simple_read_from_buffer(data, bytes, &control->read_at, control->text,
				       strlen(control->text));
	mutex_unlock(&control->lock);
	return done;
}

static const struct file_operations rblk_control_fops = {
	.owner = THIS_MODULE,
	.open = rblk_control_open,
	.release = rblk_control_release,
	.write = rblk_control_write,
	.read = rblk_control_read,
};

static struct miscdevice rblk_control_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "rblk-control",
	.fops = &rblk_control_fops,
	.mode = 0600,
};

int rblk_control_init(void)
{
	return misc_register(&rblk_control_device);
}

void rblk_control_fini(void)
{
	misc_deregister(&rblk_control_device);
}
