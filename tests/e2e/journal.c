/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stands in the journal's place: journal SOCKET FILE appends what comes as datagrams at the socket
 * to the file, with an empty line after each. Fields have no line breaks in their values here, and
 * that is checked.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* NAME=value in each line, and nothing else. */
static int fields_check(char *text)
{
	char *line, *rest = text;

	while ((line = strsep(&rest, "\n")) && rest) {
		size_t name = strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");

		if (!name || line[name] != '=')
			return 0;
	}
	return line && !*line;
}

int main(int argc, char **argv)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	static char buffer[65536], copy[65536];
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	FILE *out = argc == 3 ? fopen(argv[2], "a") : NULL;
	ssize_t got;

	if (!out || strlen(argv[1]) >= sizeof(address.sun_path))
		return 2;
	strcpy(address.sun_path, argv[1]);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)))
		return 1;
	while ((got = recv(fd, buffer, sizeof(buffer) - 1, 0)) >= 0) {
		buffer[got] = '\0';
		memcpy(copy, buffer, (size_t)got + 1);
		fprintf(out, "%s%s\n", fields_check(copy) ? "" : "WRONG ", buffer);
		fflush(out);
	}
	return 1;
}
