/* Many agents' connections to one collector, from one thread.
 *
 *   load PORT FILE
 *
 * FILE (bench/load.py writes it) holds each connection's hello and the frames
 * that all of them send, whose sequence and boot clock are patched here. Says
 * "connected N" once every hello was answered, then obeys lines of standard
 * input, each "RATE FRAMES SECONDS": send so many frames a second in all (0: as
 * many as are taken), in writes of so many frames, for so long. After each it
 * says "sent N SECONDS LATE": LATE counts turns in which a socket took nothing.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST_WRITE 65536
#define PATIENCE_S 120
/* Where a frame has its sequence and its boot clock: 5 bytes each, 0xce first. */
#define SEQ_AT 3
#define BOOT_AT 8

struct blob {
    uint32_t size;
    const char *data;
};

struct peer {
    int fd;
    int welcomed;
    uint32_t seq;
    uint32_t left; /* of the last write, what the socket did not take */
    char *rest;
};

static struct peer *peers;
static struct blob *frames;
static uint32_t peer_count, frame_count, boot_base_ms;
static int poller;
static double begun_s;

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void put32(char *at, uint32_t value) {
    value = htonl(value);
    memcpy(at, &value, 4);
}

static uint32_t welcomed;

/* Take what the collector says, and forget it. */
static void listen_for(int timeout_ms) {
    static char sink[65536];
    struct epoll_event events[256];
    int ready = epoll_wait(poller, events, 256, timeout_ms);
    for (int i = 0; i < ready; i++) {
        struct peer *peer = &peers[events[i].data.u32];
        ssize_t got = read(peer->fd, sink, sizeof sink);
        if (got == 0 || (got < 0 && errno != EAGAIN)) {
            fprintf(stderr, "a connection was closed: %.*s\n", 200,
                    got == 0 ? "by the collector" : strerror(errno));
            exit(1);
        }
        if (!peer->welcomed) {
            peer->welcomed = 1;
            welcomed++;
        }
    }
}

static void dial(struct peer *peer, uint32_t index, int port, struct blob hello) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    /* A source address each 20000 connections: ports are few. */
    struct sockaddr_in from = {.sin_family = AF_INET};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + index / 20000);
    peer->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (peer->fd < 0) fail("socket");
    if (bind(peer->fd, (void *)&from, sizeof from)) fail("bind");
    if (connect(peer->fd, (void *)&to, sizeof to)) fail("connect");
    int one = 1;
    setsockopt(peer->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(peer->fd, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = index};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, peer->fd, &event)) fail("epoll_ctl");
    if (write(peer->fd, hello.data, hello.size) != hello.size) fail("hello");
    peer->seq = 0x01000000;
}

/* Send frames in one write; return how many left, 0 if the socket is full. */
static int say(struct peer *peer, int count) {
    static char line[MOST_WRITE];
    static uint32_t next;
    char *end = line;
    if (peer->left) {
        ssize_t put = write(peer->fd, peer->rest, peer->left);
        if (put < 0 && errno != EAGAIN) fail("write");
        if (put < 0) put = 0;
        peer->left -= put;
        memmove(peer->rest, peer->rest + put, peer->left);
        if (peer->left) return 0;
    }
    uint32_t boot_ms = boot_base_ms + (uint32_t)((now_s() - begun_s) * 1000);
    for (int i = 0; i < count; i++) {
        struct blob frame = frames[next++ % frame_count];
        memcpy(end, frame.data, frame.size);
        put32(end + SEQ_AT, ++peer->seq);
        put32(end + BOOT_AT, boot_ms);
        end += frame.size;
    }
    ssize_t put = write(peer->fd, line, end - line);
    if (put < 0 && errno != EAGAIN) fail("write");
    if (put < 0) {
        peer->seq -= count;
        return 0;
    }
    peer->left = end - line - put;
    if (peer->left) {
        if (!peer->rest) peer->rest = malloc(MOST_WRITE);
        memcpy(peer->rest, line + put, peer->left);
    }
    return count;
}

static void run(double rate, int each, double seconds) {
    alarm((unsigned)seconds + PATIENCE_S);
    static uint32_t turn;
    double start = now_s(), passed = 0;
    uint64_t sent = 0, late = 0;
    while ((passed = now_s() - start) < seconds) {
        uint64_t due = rate > 0 ? (uint64_t)(rate * passed) : UINT64_MAX;
        int tried = 0;
        /* At most a thousandth of a second at a time: answers must be taken. */
        while (sent + each <= due && tried++ < 500) {
            int left = say(&peers[turn++ % peer_count], each);
            sent += left;
            late += !left;
        }
        listen_for(sent + each <= due ? 0 : 1);
    }
    alarm(0);
    printf("sent %llu %.3f %llu\n", (unsigned long long)sent, passed,
           (unsigned long long)late);
    fflush(stdout);
}

static struct blob *blobs(const char **at, uint32_t count) {
    struct blob *found = calloc(count, sizeof *found);
    for (uint32_t i = 0; i < count; i++) {
        memcpy(&found[i].size, *at, 4);
        found[i].data = *at + 4;
        *at += 4 + found[i].size;
    }
    return found;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: load PORT FILE\n");
        return 2;
    }
    FILE *file = fopen(argv[2], "rb");
    if (!file) fail(argv[2]);
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *content = malloc(size);
    if (fread(content, 1, size, file) != (size_t)size) fail(argv[2]);
    const char *at = content + 12;
    memcpy(&boot_base_ms, content, 4);
    memcpy(&peer_count, content + 4, 4);
    memcpy(&frame_count, content + 8, 4);
    struct blob *hellos = blobs(&at, peer_count);
    frames = blobs(&at, frame_count);
    peers = calloc(peer_count, sizeof *peers);
    poller = epoll_create1(0);
    begun_s = now_s();
    alarm(PATIENCE_S); /* rather dead than waiting for ever */
    for (uint32_t i = 0; i < peer_count; i++) {
        dial(&peers[i], i, atoi(argv[1]), hellos[i]);
        /* No more on their way than the collector's backlog holds. */
        while (i - welcomed > 200) listen_for(1000);
    }
    while (welcomed < peer_count) listen_for(1000);
    alarm(0);
    printf("connected %u\n", peer_count);
    fflush(stdout);
    char line[200];
    while (fgets(line, sizeof line, stdin)) {
        double rate, seconds;
        int each;
        if (sscanf(line, "%lf %d %lf", &rate, &each, &seconds) != 3) return 2;
        run(rate, each, seconds);
    }
    return 0;
}
