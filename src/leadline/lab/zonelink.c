/*
 * zonelink: joins the zones of a lab, each packet late by the delay of its (source, destination).
 *
 * It makes one anonymous network namespace per zone with one TUN device in it, 10.77.Z.1/16, and
 * carries packets between them. Traffic within a zone goes over the zone's loopback device and
 * never comes here. The namespaces live as long as this process and what runs inside them: they
 * are entered by `nsenter --net=/proc/PID/fd/N`, and nothing is left in the file system.
 *
 *     zonelink --ready FILE --delays FILE [--mtu BYTES] [--priority N] ZONE...
 *
 * --ready     written (as a new file, then renamed) when packets flow, and again after each SIGHUP: JSON
 *             with the pid, the zones, and the delays in force, so that a change can be read back.
 * --delays    lines `SOURCE DESTINATION NANOSECONDS`; a pair not named has no delay, the packets of
 *             one with -1 are dropped. Read again on SIGHUP. A faulty file changes nothing and is
 *             reported on stderr.
 * --priority  of SCHED_FIFO, 0 for ordinary scheduling (default 1; not being permitted is fine).
 *
 * SIGUSR1 prints counters since the last one on stderr. SIGTERM or SIGINT ends it.
 * Exit status: 0 ended by a signal, 2 wrong arguments, 3 not permitted or not possible here.
 *
 * How it stays cheap and even: one thread, which sleeps in ppoll without any timeout when nothing
 * is on its way. A wake-up delivers all that is due and reads all that has come. A packet is read
 * straight into the place where it waits (one ring per source zone, one queue per pair threaded
 * through it), and is never copied by us. Checksums are left to the receiving kernel's trust, as
 * on any virtual link (TUN_F_CSUM), which saves two passes over every byte.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define ZONES_MAX 64
#define NAME_MAX_BYTES 63
#define DELAY_MAX_NS 10000000000ULL
/* Of virtio_net_hdr, which the kernel puts before each packet for the sake of the checksum. */
#define HEADER_BYTES 10
#define MTU_MAX 65000
/* Of one source zone. Memory is only taken as far as packets really wait. */
#define RING_BYTES (32u << 20)
/* Packets read from one zone before looking at the clock and at the other zones again. */
#define BATCH 16
/* Packets the kernel keeps for us while we do not run; its default of 500 is overrun in a burst. */
#define KERNEL_QUEUE 10000

#define NONE UINT32_MAX
#define NEVER UINT64_MAX
/* In place of a delay: every packet of the pair is dropped. -1 in the files. */
#define LOST UINT64_MAX

/* A packet that waits, in the ring of its source. Bytes follow. */
struct waiting {
	uint64_t due_ns;
	uint32_t next;  /* in the queue of its pair */
	uint32_t bytes; /* of virtio header and packet */
	uint32_t span;  /* of this record, up to the next one */
	uint32_t gone;
};

#define RECORD_MAX ((uint32_t)((sizeof(struct waiting) + HEADER_BYTES + MTU_MAX + 7) & ~7u))

struct pair {
	uint64_t delay_ns;
	uint32_t first, last;
};

struct zone {
	const char *name;
	int namespace_fd;
	int tun_fd;
	char *ring;
	uint32_t head, tail; /* of what waits; equal and `count` 0 when nothing does */
	uint32_t wrapped_at; /* where the head jumps to 0, NONE if the tail has not passed the end */
	uint32_t count;
	bool full; /* since the last time there was room */
	struct pair to[ZONES_MAX];
};

static struct zone zones[ZONES_MAX];
static unsigned zone_count;
static const char *ready_path, *delays_path;
static int mtu = MTU_MAX;
static int priority = 1;
static bool realtime;

static struct {
	uint64_t packets, bytes, waited, stalls, unknown, refused, lost;
	uint64_t late_sum_ns, late_max_ns, wakeups;
} counters;

static volatile sig_atomic_t ending, rereading, counting;

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fputs("zonelink: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
}

static _Noreturn void cannot(const char *what)
{
	say("cannot %s: %s", what, strerror(errno));
	exit(3);
}

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void on_signal(int number)
{
	if (number == SIGHUP)
		rereading = 1;
	else if (number == SIGUSR1)
		counting = 1;
	else
		ending = 1;
}

/* ---- zones ---------------------------------------------------------------------------------- */

static void ask(int socket_fd, unsigned long request, struct ifreq *device, const char *what)
{
	if (ioctl(socket_fd, request, device) < 0)
		cannot(what);
}

static void set_address(struct ifreq *device, uint32_t address)
{
	struct sockaddr_in *internet = (struct sockaddr_in *)&device->ifr_addr;
	memset(&device->ifr_addr, 0, sizeof device->ifr_addr);
	internet->sin_family = AF_INET;
	internet->sin_addr.s_addr = htonl(address);
}

static void bring_up(int socket_fd, const char *name)
{
	struct ifreq device;
	memset(&device, 0, sizeof device);
	strcpy(device.ifr_name, name);
	ask(socket_fd, SIOCGIFFLAGS, &device, "read the flags of a network device");
	device.ifr_flags |= IFF_UP;
	ask(socket_fd, SIOCSIFFLAGS, &device, "bring a network device up");
}

/* Leaves this process inside the new zone. */
static void make_zone(struct zone *zone, unsigned number)
{
	struct ifreq device;
	if (unshare(CLONE_NEWNET) < 0)
		cannot("make a network namespace");
	zone->namespace_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (zone->namespace_fd < 0)
		cannot("open the new network namespace");
	zone->tun_fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (zone->tun_fd < 0)
		cannot("open /dev/net/tun");
	memset(&device, 0, sizeof device);
	strcpy(device.ifr_name, "zonelink");
	device.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
	if (ioctl(zone->tun_fd, TUNSETIFF, &device) < 0)
		cannot("make a TUN device");
	if (ioctl(zone->tun_fd, TUNSETOFFLOAD, TUN_F_CSUM) < 0)
		cannot("leave checksums out on a TUN device");

	int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (control < 0)
		cannot("open a socket");
	device.ifr_mtu = mtu;
	ask(control, SIOCSIFMTU, &device, "set the MTU");
	device.ifr_qlen = KERNEL_QUEUE;
	ask(control, SIOCSIFTXQLEN, &device, "set the length of the queue");
	set_address(&device, (10u << 24) | (77u << 16) | (number << 8) | 1u);
	ask(control, SIOCSIFADDR, &device, "set the address");
	set_address(&device, 0xffff0000u);
	ask(control, SIOCSIFNETMASK, &device, "set the netmask");
	bring_up(control, "lo");
	bring_up(control, "zonelink");
	close(control);

	zone->ring = mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (zone->ring == MAP_FAILED)
		cannot("reserve memory for packets");
	zone->wrapped_at = NONE;
	for (unsigned other = 0; other < ZONES_MAX; other++)
		zone->to[other].first = zone->to[other].last = NONE;
}

static int zone_named(const char *name)
{
	for (unsigned z = 0; z < zone_count; z++)
		if (strcmp(zones[z].name, name) == 0)
			return (int)z;
	return -1;
}

/* ---- the files ------------------------------------------------------------------------------ */

/* All of the file or nothing: a faulty one leaves the delays as they are. */
static bool read_delays(void)
{
	static uint64_t wanted[ZONES_MAX][ZONES_MAX];
	char source[NAME_MAX_BYTES + 1], destination[NAME_MAX_BYTES + 1], rest[2];
	char *line = NULL;
	size_t space = 0;
	ssize_t length;
	unsigned number = 0;
	bool good = true;
	FILE *file = fopen(delays_path, "re");
	if (!file) {
		say("%s: %s; the delays stay", delays_path, strerror(errno));
		return false;
	}
	memset(wanted, 0, sizeof wanted);
	while (good && (length = getline(&line, &space, file)) >= 0) {
		int64_t delay;
		number++;
		/* Of a torn file the last line lacks its end, or there are zeros. */
		good = strlen(line) == (size_t)length && line[length - 1] == '\n';
		if (good && (line[strspn(line, " \t\n")] == '\0' || line[0] == '#'))
			continue;
		good = good &&
		       sscanf(line, "%63s %63s %" SCNd64 " %1s", source, destination, &delay, rest) == 3;
		int from = good ? zone_named(source) : -1;
		int to = good ? zone_named(destination) : -1;
		good = good && from >= 0 && to >= 0 && from != to && delay >= -1 &&
		       (delay < 0 || (uint64_t)delay <= DELAY_MAX_NS);
		if (good)
			wanted[from][to] = delay < 0 ? LOST : (uint64_t)delay;
		else
			say("%s: line %u is not `SOURCE DESTINATION NANOSECONDS` of two zones, from 0 to "
			    "%llu or -1; the delays stay", delays_path, number, DELAY_MAX_NS);
	}
	if (ferror(file)) {
		say("%s: cannot be read; the delays stay", delays_path);
		good = false;
	}
	free(line);
	fclose(file);
	/* What waits keeps its time. What comes later waits behind it, be its own delay shorter. */
	for (unsigned from = 0; good && from < zone_count; from++)
		for (unsigned to = 0; to < zone_count; to++)
			zones[from].to[to].delay_ns = wanted[from][to];
	return good;
}

/* Names hold nothing that JSON would want escaped: main() saw to it. */
static bool write_ready(void)
{
	char fresh[4096];
	if (snprintf(fresh, sizeof fresh, "%s.new", ready_path) >= (int)sizeof fresh) {
		errno = ENAMETOOLONG;
		return false;
	}
	FILE *file = fopen(fresh, "we");
	if (!file)
		return false;
	fprintf(file, "{\"pid\": %d, \"realtime\": %s, \"mtu\": %d, \"zones\": [", (int)getpid(),
		realtime ? "true" : "false", mtu);
	for (unsigned z = 0; z < zone_count; z++)
		fprintf(file, "%s{\"name\": \"%s\", \"address\": \"10.77.%u.1\", \"namespace_fd\": %d}",
			z ? ", " : "", zones[z].name, z + 1, zones[z].namespace_fd);
	fputs("], \"delays\": [", file);
	const char *between = "";
	for (unsigned from = 0; from < zone_count; from++)
		for (unsigned to = 0; to < zone_count; to++)
			if (zones[from].to[to].delay_ns) {
				fprintf(file, "%s[\"%s\", \"%s\", %" PRId64 "]", between, zones[from].name,
					zones[to].name, (int64_t)zones[from].to[to].delay_ns);
				between = ", ";
			}
	fputs("]}\n", file);
	bool good = !ferror(file);
	good = fclose(file) == 0 && good;
	return good && rename(fresh, ready_path) == 0;
}

/* ---- packets -------------------------------------------------------------------------------- */

/*
 * Where the next packet of a zone can be read to, or NULL when its ring is full. Then its TUN is
 * not read until the oldest packet has gone: the kernel queues. We do not drop, as a router would:
 * a lost packet costs TCP 200 ms, and a lab whose link cannot be overrun for longer than one delay
 * would show that as latency of its storage.
 */
static struct waiting *room(struct zone *zone)
{
	if (zone->count == 0) {
		zone->head = zone->tail = 0; /* again and again the same memory: it stays in cache */
		zone->wrapped_at = NONE;
	}
	if (zone->wrapped_at == NONE) {
		if (RING_BYTES - zone->tail < RECORD_MAX) {
			if (zone->head <= RECORD_MAX)
				return NULL;
			zone->wrapped_at = zone->tail;
			zone->tail = 0;
		}
	} else if (zone->head - zone->tail <= RECORD_MAX) {
		return NULL;
	}
	return (struct waiting *)(zone->ring + zone->tail);
}

/* Give back the space of the oldest packets that have gone. */
static void reclaim(struct zone *zone)
{
	while (zone->count) {
		if (zone->head == zone->wrapped_at) {
			zone->head = 0;
			zone->wrapped_at = NONE;
		}
		struct waiting *oldest = (struct waiting *)(zone->ring + zone->head);
		if (!oldest->gone)
			return;
		zone->head += oldest->span;
		zone->count--;
	}
}

static void pass_on(struct zone *destination, const struct waiting *packet)
{
	if (write(destination->tun_fd, packet + 1, packet->bytes) < 0) {
		counters.refused++;
		return;
	}
	counters.packets++;
	counters.bytes += packet->bytes - HEADER_BYTES;
}

/* Deliver what is due; returns when the next one is, or NEVER. */
static uint64_t deliver(void)
{
	uint64_t next = NEVER;
	for (unsigned from = 0; from < zone_count; from++) {
		struct zone *source = &zones[from];
		if (source->count == 0)
			continue;
		for (unsigned to = 0; to < zone_count; to++) {
			struct pair *pair = &source->to[to];
			while (pair->first != NONE) {
				struct waiting *packet = (struct waiting *)(source->ring + pair->first);
				uint64_t now = now_ns();
				if (packet->due_ns > now) {
					if (packet->due_ns < next)
						next = packet->due_ns;
					break;
				}
				uint64_t late = now - packet->due_ns;
				counters.late_sum_ns += late;
				if (late > counters.late_max_ns)
					counters.late_max_ns = late;
				counters.waited++;
				pass_on(&zones[to], packet);
				packet->gone = 1;
				pair->first = packet->next;
				if (pair->first == NONE)
					pair->last = NONE;
			}
		}
		reclaim(source);
	}
	return next;
}

/* The number of the zone that a packet goes to, or -1: not IPv4, or no address of another zone. */
static int destination_of(const unsigned char *packet, size_t bytes, unsigned from)
{
	if (bytes < 20 || packet[0] >> 4 != 4)
		return -1;
	const unsigned char *address = packet + 16;
	if (address[0] != 10 || address[1] != 77 || address[3] != 1)
		return -1;
	unsigned number = address[2];
	return number >= 1 && number <= zone_count && number - 1 != from ? (int)number - 1 : -1;
}

static void take_in(unsigned from)
{
	struct zone *zone = &zones[from];
	for (int read_so_far = 0; read_so_far < BATCH; read_so_far++) {
		struct waiting *packet = room(zone);
		if (!packet)
			return;
		ssize_t bytes = read(zone->tun_fd, packet + 1, HEADER_BYTES + MTU_MAX);
		if (bytes < 0) {
			if (errno == EAGAIN || errno == EINTR)
				return;
			cannot("read from a zone");
		}
		int to = bytes <= HEADER_BYTES ? -1
			: destination_of((unsigned char *)(packet + 1) + HEADER_BYTES,
					 (size_t)bytes - HEADER_BYTES, from);
		if (to < 0) {
			counters.unknown++;
			continue;
		}
		struct pair *pair = &zone->to[to];
		if (pair->delay_ns == LOST) {
			counters.lost++;
			continue;
		}
		packet->bytes = (uint32_t)bytes;
		if (pair->delay_ns == 0 && pair->first == NONE) {
			/* Nothing waits that it could overtake. Its place is used again at once. */
			pass_on(&zones[to], packet);
			continue;
		}
		packet->due_ns = now_ns() + pair->delay_ns;
		packet->next = NONE;
		packet->gone = 0;
		packet->span = (uint32_t)((sizeof *packet + (size_t)bytes + 7) & ~(size_t)7);
		uint32_t at = zone->tail;
		zone->tail += packet->span;
		zone->count++;
		if (pair->last == NONE)
			pair->first = at;
		else
			((struct waiting *)(zone->ring + pair->last))->next = at;
		pair->last = at;
	}
}

static void print_counters(void)
{
	say("%" PRIu64 " packets, %" PRIu64 " bytes, %" PRIu64 " waited, %" PRIu64 " wake-ups, "
	    "late by %" PRIu64 " ns in the mean and %" PRIu64 " at most, %" PRIu64 " stalls, "
	    "%" PRIu64 " to no zone, %" PRIu64 " refused by the kernel, %" PRIu64 " lost on purpose",
	    counters.packets, counters.bytes, counters.waited, counters.wakeups,
	    counters.waited ? counters.late_sum_ns / counters.waited : 0, counters.late_max_ns,
	    counters.stalls, counters.unknown, counters.refused, counters.lost);
	memset(&counters, 0, sizeof counters);
}

static void forward(const sigset_t *while_asleep)
{
	struct pollfd polled[ZONES_MAX];
	while (!ending) {
		if (rereading) {
			rereading = 0;
			read_delays();
			if (!write_ready())
				say("%s: %s", ready_path, strerror(errno));
		}
		if (counting) {
			counting = 0;
			print_counters();
		}
		uint64_t next = deliver();
		for (unsigned z = 0; z < zone_count; z++) {
			bool full = room(&zones[z]) == NULL;
			if (full && !zones[z].full)
				counters.stalls++;
			zones[z].full = full;
			polled[z] = (struct pollfd){.fd = zones[z].tun_fd, .events = full ? 0 : POLLIN};
		}
		struct timespec wait = {0}, *timeout = NULL;
		if (next != NEVER) {
			uint64_t now = now_ns(), left = next > now ? next - now : 0;
			wait.tv_sec = (time_t)(left / 1000000000u);
			wait.tv_nsec = (long)(left % 1000000000u);
			timeout = &wait;
		}
		int ready = ppoll(polled, zone_count, timeout, while_asleep);
		counters.wakeups++;
		if (ready < 0 && errno != EINTR)
			cannot("wait for packets");
		for (unsigned z = 0; ready > 0 && z < zone_count; z++) {
			if (polled[z].revents & (POLLERR | POLLHUP | POLLNVAL)) {
				say("the network device of zone %s is gone", zones[z].name);
				exit(3);
			}
			if (polled[z].revents & POLLIN)
				take_in(z);
		}
	}
}

/* ---- start ---------------------------------------------------------------------------------- */

static _Noreturn void wrong(const char *what, const char *value)
{
	say("%s: %s", what, value);
	exit(2);
}

static void add_zone(const char *name)
{
	size_t length = strlen(name);
	if (length == 0 || length > NAME_MAX_BYTES ||
	    strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != length)
		wrong("a zone's name is letters, digits, `.`, `_` and `-`, 63 at most", name);
	if (zone_named(name) >= 0)
		wrong("two zones have the name", name);
	if (zone_count == ZONES_MAX)
		wrong("there are too many zones, beginning with", name);
	zones[zone_count++].name = name;
}

static int number_of(const char *text, const char *option, int least, int most)
{
	char *end;
	errno = 0;
	long value = strtol(text, &end, 10);
	if (errno || *end || end == text || value < least || value > most)
		wrong(option, text);
	return (int)value;
}

static void read_arguments(int count, char **values)
{
	for (int at = 1; at < count; at++) {
		const char *option = values[at];
		if (option[0] != '-') {
			add_zone(option);
			continue;
		}
		if (++at == count)
			wrong("a value is missing after", option);
		if (strcmp(option, "--ready") == 0)
			ready_path = values[at];
		else if (strcmp(option, "--delays") == 0)
			delays_path = values[at];
		else if (strcmp(option, "--mtu") == 0)
			mtu = number_of(values[at], "--mtu is not from 576 to 65000", 576, MTU_MAX);
		else if (strcmp(option, "--priority") == 0)
			priority = number_of(values[at], "--priority is not from 0 to 99", 0, 99);
		else
			wrong("no such option", option);
	}
	if (!ready_path || !delays_path || zone_count == 0)
		wrong("usage", "zonelink --ready FILE --delays FILE [--mtu BYTES] [--priority N] ZONE...");
}

int main(int count, char **values)
{
	sigset_t blocked, while_asleep;
	struct sigaction action = {.sa_handler = on_signal};
	const int signals[] = {SIGHUP, SIGUSR1, SIGTERM, SIGINT};

	read_arguments(count, values);
	/* Until the ready file exists, the parent must live: no other process would end this one. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigemptyset(&blocked);
	for (size_t at = 0; at < sizeof signals / sizeof *signals; at++) {
		sigaction(signals[at], &action, NULL);
		sigaddset(&blocked, signals[at]);
	}
	sigprocmask(SIG_BLOCK, &blocked, &while_asleep);
	for (size_t at = 0; at < sizeof signals / sizeof *signals; at++)
		sigdelset(&while_asleep, signals[at]);

	int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (home < 0)
		cannot("open this network namespace");
	for (unsigned z = 0; z < zone_count; z++)
		make_zone(&zones[z], z + 1);
	if (setns(home, CLONE_NEWNET) < 0)
		cannot("return to this network namespace");
	close(home);
	if (!read_delays())
		exit(2);

	struct sched_param rank = {.sched_priority = priority};
	realtime = priority > 0 &&
		   sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &rank) == 0;
	prctl(PR_SET_TIMERSLACK, 1UL);
	prctl(PR_SET_PDEATHSIG, 0);
	if (!write_ready())
		cannot("write the ready file");
	forward(&while_asleep);
	print_counters();
	return 0;
}
