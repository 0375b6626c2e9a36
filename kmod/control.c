// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * /dev/rblk-control: one readable line is written, an errno answers it, and one line of text can
 * be read back from the same open file. For CAP_SYS_ADMIN.
 *
 *	attach address=10.9.0.1[,10.9.1.1...] volume=disk [port=4430[,4431...]] [queues=N]
 *	       [poll_queues=N] [credits=N] [initiator=NAME] [key=NAME] [connect_ms=N] [command_ms=N]
 *	       [reconnect_ms=N] [fail_fast_ms=N] [give_up_ms=N] [read_only] [volatile]
 *	       [own_session] [priority] [digest] [source=10.9.0.2[,10.9.1.2...]]
 *	       [tos=N] [ack_timeout=N] [name=NAME] [uri=URI]
 *	detach device=rblk0 [force]
 *	keyring                       answers the number of the keyring that key= is in
 */
#include <linux/fs.h>
#include <linux/inet.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/utsname.h>

#include "kmod/attach_limits.h"
#include "kmod/disk.h"
#include "kmod/key.h"
#include "kmod/module.h"
#include "kmod/tell.h"
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

/*
 * An attach line, read: its options, and the words that belong together: addresses, and the port
 * and the source of each, or of all.
 */
struct rblk_line {
	struct rblk_options options;
	char addresses[CORE_PORTALS_MAX * 64];
	char ports[CORE_PORTALS_MAX * 8];
	char sources[CORE_PORTALS_MAX * 64];
};

/* A word of an attach line, and where its value goes. */
struct rblk_word {
	const char *name; /* with its "="; a flag has none */
	int (*take)(const struct rblk_word *w, void *to, const char *word, char *text);
	size_t offset, bytes;
	unsigned int min, max;
};

static int rblk_word_flag(const struct rblk_word *w, void *to, const char *word, char *text)
{
	*(bool *)to = true;
	return 0;
}

static int rblk_word_number(const struct rblk_word *w, void *to, const char *word, char *text)
{
	unsigned int number;

	if (kstrtouint(word + strlen(w->name), 10, &number))
		return rblk_refuse(text, -EINVAL, "attach: %.64s: not a number", word);
	if (number < w->min || number > w->max)
		return rblk_refuse(text, -ERANGE, "attach: %.64s: must be from %u to %u", word,
				   w->min, w->max);
	*(unsigned int *)to = number;
	return 0;
}

/* The value must be printable. It has no blanks, since it is a word of the line. */
static int rblk_word_text(const struct rblk_word *w, void *to, const char *word, char *text)
{
	const char *value = word + strlen(w->name), *c = value;

	if (strlen(value) >= w->bytes)
		return rblk_refuse(text, -ENAMETOOLONG, "attach: %.80s...: longer than %zu characters",
				   word, w->bytes - 1);
	while (*c > ' ' && *c < 0x7f)
		c++;
	if (!*value || *c)
		return rblk_refuse(text, -EINVAL, "attach: %s: empty, or not printable", w->name);
	memset(to, 0, w->bytes);
	memcpy(to, value, strlen(value));
	return 0;
}

static int rblk_word_name(const struct rblk_word *w, void *to, const char *word, char *text)
{
	int error = rblk_word_text(w, to, word, text);

	if (error || rblk_name_valid(to))
		return error;
	return rblk_refuse(text, -EINVAL, "attach: %.80s: letters, digits and ._:+- only", word);
}

#define RBLK_WORD(name, take, field, ...) \
	{ name, take, offsetof(struct rblk_line, field), sizeof_field(struct rblk_line, field), \
	  ##__VA_ARGS__ }

/* One of the session's numbers has the word's name. */
#define RBLK_NUMBER(name, ...) \
	RBLK_WORD(#name "=", rblk_word_number, options.session.name, __VA_ARGS__)

static const struct rblk_word rblk_words[] = {
	RBLK_WORD("address=", rblk_word_text, addresses),
	RBLK_WORD("port=", rblk_word_text, ports),
	RBLK_WORD("source=", rblk_word_text, sources),
	RBLK_WORD("volume=", rblk_word_name, options.disk.volume),
	RBLK_WORD("name=", rblk_word_name, options.disk.name),
	RBLK_WORD("uri=", rblk_word_text, options.disk.uri),
	RBLK_WORD("read_only", rblk_word_flag, options.disk.read_only),
	RBLK_WORD("volatile", rblk_word_flag, options.disk.accept_volatile),
	RBLK_WORD("own_session", rblk_word_flag, options.disk.own_session),
	RBLK_WORD("priority", rblk_word_flag, options.disk.priority),
	RBLK_WORD("initiator=", rblk_word_name, options.session.initiator),
	RBLK_WORD("key=", rblk_word_text, options.session.key),
	RBLK_WORD("digest", rblk_word_flag, options.session.digest),
	RBLK_NUMBER(queues, 1, RBLK_QUEUES_MAX),
	RBLK_NUMBER(poll_queues, 0, RBLK_QUEUES_MAX - 1),
	RBLK_NUMBER(credits, RBLK_CREDITS_MIN, RBLK_CREDITS_MAX),
	RBLK_NUMBER(connect_ms, RBLK_ATTACH_WAIT_MS_MIN, RBLK_ATTACH_WAIT_MS_MAX),
	RBLK_NUMBER(command_ms, RBLK_ATTACH_WAIT_MS_MIN, RBLK_ATTACH_WAIT_MS_MAX),
	RBLK_NUMBER(reconnect_ms, RBLK_ATTACH_RECONNECT_MS_MIN, RBLK_ATTACH_WAIT_MS_MAX),
	RBLK_NUMBER(fail_fast_ms, 0, RBLK_ATTACH_GIVE_UP_MS_MAX),
	RBLK_NUMBER(give_up_ms, 0, RBLK_ATTACH_GIVE_UP_MS_MAX),
	RBLK_NUMBER(tos, 0, RBLK_ATTACH_TOS_MAX),
	RBLK_NUMBER(ack_timeout, 0, RBLK_ATTACH_ACK_TIMEOUT_MAX),
};

static int rblk_control_word(struct rblk_line *line, const char *word, char *text)
{
	const struct rblk_word *w;

	for (w = rblk_words; w < rblk_words + ARRAY_SIZE(rblk_words); w++)
		if (w->take == rblk_word_flag ? !strcmp(word, w->name) :
						str_has_prefix(word, w->name))
			return w->take(w, (u8 *)line + w->offset, word, text);
	return rblk_refuse(text, -EINVAL, "attach: \"%.64s\": unknown word", word);
}

static int rblk_control_portal(struct rblk_portal *portal, const char *address, const char *port,
			       const char *source, char *text)
{
	struct net *net = current->nsproxy->net_ns;
	int error = inet_pton_with_scope(net, AF_UNSPEC, address, port, &portal->address);
	u16 number;

	if (kstrtou16(port, 10, &number) || !number)
		return rblk_refuse(text, -ERANGE, "attach: port=%.64s: must be from 1 to 65535",
				   port);
	if (error)
		return rblk_refuse(text, error, "attach: address=%.80s: not a numeric address",
				   address);
	snprintf(portal->text, sizeof(portal->text), "%pISpc", &portal->address);
	if (source)
		error = inet_pton_with_scope(net, portal->address.ss_family, source, NULL,
					     &portal->source);
	if (error)
		rblk_refuse(text, error,
			    "attach: source=%.80s: no numeric address of the family of %.64s",
			    source, portal->text);
	return error;
}

/* The words of a list, as far as there is room; how many it has. */
static unsigned int rblk_control_split(char *list, char *words[CORE_PORTALS_MAX])
{
	unsigned int count = 0;
	char *word;

	if (!*list)
		return 0;
	while ((word = strsep(&list, ","))) {
		if (count < CORE_PORTALS_MAX)
			words[count] = word;
		count++;
	}
	return count;
}

/* Behind a semicolon are addresses of another target. */
static void rblk_control_groups(char *addresses, struct rblk_portal *portal)
{
	const struct rblk_portal *end = portal + CORE_PORTALS_MAX;
	char *c;

	for (c = addresses; (c = strpbrk(c, ",;")) && portal + 1 < end; portal++, c++) {
		portal[1].group = portal->group + (*c == ';');
		*c = ',';
	}
}

/* Where there are fewer ports or sources than addresses, they begin with the first again. */
static int rblk_control_portals(struct rblk_line *line, char *text)
{
	char *address[CORE_PORTALS_MAX], *port[CORE_PORTALS_MAX], *source[CORE_PORTALS_MAX];
	struct rblk_session_options *o = &line->options.session;
	unsigned int count, ports = rblk_control_split(line->ports, port),
			    sources = rblk_control_split(line->sources, source);
	int error = 0;

	rblk_control_groups(line->addresses, o->portals);
	count = rblk_control_split(line->addresses, address);

	if (count > CORE_PORTALS_MAX)
		return rblk_refuse(text, -E2BIG, "attach: more than %u addresses",
				   CORE_PORTALS_MAX);
	if (ports > count || sources > count)
		return rblk_refuse(text, -EINVAL, "attach: more %s than addresses",
				   ports > count ? "ports" : "sources");
	for (; o->portal_count < count && !error; o->portal_count++) {
		unsigned int i = o->portal_count;

		error = rblk_control_portal(&o->portals[i], address[i], port[i % ports],
					    sources ? source[i % sources] : NULL, text);
	}
	return error;
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

static int rblk_control_read_line(char *words, struct rblk_line *line, char *text)
{
	const struct rblk_session_options *o = &line->options.session;
	char *word;
	int error = 0;

	rblk_control_defaults(&line->options.session);
	snprintf(line->ports, sizeof(line->ports), "%u", RBLK_DEFAULT_PORT);
	while (!error && (word = strsep(&words, " \t")))
		if (*word)
			error = rblk_control_word(line, word, text);
	if (error)
		return error;
	if (!line->addresses[0] || !line->options.disk.volume[0])
		return rblk_refuse(text, -EINVAL, "attach: address= and volume= are needed");
	/* Where queues= is left out, there are no more than leave room for these. */
	if (max(o->queues, 1u) + o->poll_queues > RBLK_QUEUES_MAX)
		return rblk_refuse(text, -ERANGE,
				   "attach: queues= and poll_queues=: must be at most %u together",
				   RBLK_QUEUES_MAX);
	return rblk_control_portals(line, text);
}

static int rblk_control_attach(char *words, char *text)
{
	struct rblk_line *line = kzalloc(sizeof(*line), GFP_KERNEL);
	int error;

	if (!line)
		return -ENOMEM;
	error = rblk_control_read_line(words, line, text);
	if (!error)
		error = rblk_disk_attach(&line->options, text);
	kfree(line);
	return error;
}

static int rblk_control_detach(char *words, char *text)
{
	char *word, *name = NULL;
	bool force = false;

	while ((word = strsep(&words, " \t"))) {
		if (!strncmp(word, "device=", 7))
			name = word + 7;
		else if (!strcmp(word, "force"))
			force = true;
		else if (*word)
			return rblk_refuse(text, -EINVAL, "detach: \"%.64s\": unknown word", word);
	}
	if (!name)
		return rblk_refuse(text, -EINVAL, "detach: device= is needed");
	return rblk_disk_detach(name, force, text);
}

static int rblk_control_line(char *line, size_t bytes, char *text)
{
	bool whole = strlen(line) == bytes; /* or a zero byte would hide the rest */
	char *verb;

	line = strim(line);
	if (!whole || !*line || strpbrk(line, "\n\r"))
		return rblk_refuse(text, -EINVAL, "expected one line");
	verb = strsep(&line, " \t");
	if (!strcmp(verb, "attach"))
		return rblk_control_attach(line, text);
	if (!strcmp(verb, "detach"))
		return rblk_control_detach(line, text);
	if (!strcmp(verb, "keyring") && !line)
		return rblk_refuse(text, 0, "%d", rblk_keyring_serial());
	return rblk_refuse(text, -EINVAL, "\"%.32s\": expected attach, detach or keyring", verb);
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
		rblk_refuse(control->text, error, "a line is at most %u bytes",
			    RBLK_ATTACH_LINE_BYTES);
	} else if (error == -EFAULT) {
		rblk_refuse(control->text, error, "the line cannot be read");
	}
	if (error == -ENOMEM && !control->text[0])
		rblk_refuse(control->text, error, "out of memory");
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

struct miscdevice rblk_control_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "rblk-control",
	.fops = &rblk_control_fops,
	.mode = 0600,
};
