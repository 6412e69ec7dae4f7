#define _GNU_SOURCE
#include "kpps_dpdk.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>
#include <rte_version.h>

/* Buffers in the cache of a thread. */
#define CACHE 256
/* Buffers beyond those in the rings of a port: frames that another port holds; and for each queue, in the
 * cache of its thread and in bursts. */
#define SPARE 3584
#define SPARE_OF_QUEUE 512

struct kpps_dpdk_queue {
    struct kpps_dpdk_burst received, sending;
    struct rte_mbuf *received_mbufs[KPPS_DPDK_BURST], *sending_mbufs[KPPS_DPDK_BURST];
    /* Received frames before this one are freed. */
    uint32_t freed;
    struct rte_mempool *pool;
    uint16_t port, number;
} __rte_cache_aligned;

struct kpps_dpdk_port {
    struct kpps_dpdk_queue *queues;
    struct rte_mempool *pool;
    struct rte_device *device;
    uint16_t id, count, rx_descriptors, tx_descriptors;
    char driver[64];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Whether only errors are wanted, and these by kpps_dpdk_messages. */
static int is_quiet;
static char messages[2048];
static size_t written;

uint32_t kpps_dpdk_abi(void) { return KPPS_DPDK_ABI; }
const char *kpps_dpdk_loaded(void) { return rte_version(); }
const char *kpps_dpdk_compiled(void)
{
    static char version[32];
    snprintf(version, sizeof(version), "%s %d.%02d", RTE_VER_PREFIX, RTE_VER_YEAR, RTE_VER_MONTH);
    return version;
}

int kpps_dpdk_fits(void)
{
    const char *compiled = kpps_dpdk_compiled();
    return strncmp(rte_version(), compiled, strlen(compiled)) == 0;
}

/* Keeps a message of DPDK, if there is space for it. */
static ssize_t keep(void *cookie, const char *text, size_t bytes)
{
    (void)cookie;
    pthread_mutex_lock(&lock);
    if (bytes < sizeof(messages) - written) {
        memcpy(messages + written, text, bytes);
        written += bytes;
    }
    pthread_mutex_unlock(&lock);
    return bytes;
}

void kpps_dpdk_messages(char *text, size_t bytes)
{
    pthread_mutex_lock(&lock);
    size_t length = RTE_MIN(written, bytes - 1);
    memcpy(text, messages, length);
    text[length] = 0;
    written = 0;
    pthread_mutex_unlock(&lock);
}

/* Lets a stream lead to nowhere. Returns a copy of its descriptor, or -1. */
static int silence(FILE *stream)
{
    int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    fflush(stream);
    int saved = nothing < 0 ? -1 : fcntl(fileno(stream), F_DUPFD_CLOEXEC, 3);
    if (saved >= 0)
        dup2(nothing, fileno(stream));
    if (nothing >= 0)
        close(nothing);
    return saved;
}

/* Lets a stream lead to this descriptor again. */
static void restore(FILE *stream, int saved)
{
    if (saved < 0)
        return;
    fflush(stream);
    dup2(saved, fileno(stream));
    close(saved);
}

int kpps_dpdk_start(int argc, char **argv, int quiet)
{
    is_quiet = quiet;
    if (quiet) {
        FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = keep });
        if (stream == NULL)
            return -errno;
        setvbuf(stream, NULL, _IOLBF, 0);
        rte_openlog_stream(stream);
    }
    /* If an argument is wrong, DPDK prints two pages of help to standard output, and some of its messages go
     * to standard error whatever its stream is. */
    int before = opterr, saved[2] = { -1, -1 };
    for (int i = 0; quiet && i < 2; i++)
        saved[i] = silence(i == 0 ? stdout : stderr);
    opterr = quiet ? 0 : opterr;
    int result = rte_eal_init(argc, argv), error = rte_errno;
    opterr = before;
    for (int i = 0; i < 2; i++)
        restore(i == 0 ? stdout : stderr, saved[i]);
    return result >= 0 ? 0 : error > 0 ? -error : -EINVAL;
}

int kpps_dpdk_enter(void)
{
    return rte_thread_register() == 0 ? 0 : -rte_errno;
}

void kpps_dpdk_leave(void)
{
    rte_thread_unregister();
}

/* The port of a probed device: the first one, if it has several. */
static int port_of(const char *device, uint16_t *id)
{
    struct rte_dev_iterator iterator;
    uint16_t each, found = 0;
    RTE_ETH_FOREACH_MATCHING_DEV (each, device, &iterator) {
        if (!found)
            *id = each;
        found = 1;
    }
    return found ? 0 : -ENODEV;
}

/* Gives a port its queues. */
static int set_up(struct kpps_dpdk_port *port, int socket)
{
    for (uint16_t i = 0; i < port->count; i++) {
        struct kpps_dpdk_queue *queue = &port->queues[i];
        queue->port = port->id;
        queue->number = i;
        queue->pool = port->pool;
        int error = rte_eth_rx_queue_setup(port->id, i, port->rx_descriptors, socket, NULL, port->pool);
        if (error == 0)
            error = rte_eth_tx_queue_setup(port->id, i, port->tx_descriptors, socket, NULL);
        if (error)
            return error;
    }
    return 0;
}

/* Configures and starts a port. */
static int start(struct kpps_dpdk_port *port, uint16_t descriptors, int promiscuous)
{
    struct rte_eth_dev_info info;
    int error = rte_eth_dev_info_get(port->id, &info);
    if (error)
        return error;
    snprintf(port->driver, sizeof(port->driver), "%s", info.driver_name ? info.driver_name : "");
    struct rte_eth_conf conf;
    memset(&conf, 0, sizeof(conf));
    /* All frames that are sent are of one pool, and nobody else has them. */
    conf.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
    conf.rx_adv_conf.rss_conf.rss_hf = info.flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP);
    if (port->count > 1 && conf.rx_adv_conf.rss_conf.rss_hf != 0)
        conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    uint16_t most = RTE_MIN(info.max_rx_queues, info.max_tx_queues);
    if (port->count > most) {
        char text[64];
        keep(NULL, text, snprintf(text, sizeof(text), "it has %u queue%s at most\n", most, most == 1 ? "" : "s"));
        return -EINVAL;
    }
    error = rte_eth_dev_configure(port->id, port->count, port->count, &conf);
    if (error)
        return error;
    port->rx_descriptors = port->tx_descriptors = descriptors;
    error = rte_eth_dev_adjust_nb_rx_tx_desc(port->id, &port->rx_descriptors, &port->tx_descriptors);
    if (error)
        return error;
    int socket = rte_eth_dev_socket_id(port->id);
    char name[RTE_MEMPOOL_NAMESIZE];
    snprintf(name, sizeof(name), "kpps_%u", port->id);
    uint32_t each = port->rx_descriptors + port->tx_descriptors + SPARE_OF_QUEUE;
    uint32_t count = rte_align32pow2(port->count * each + SPARE) - 1;
    port->pool = rte_pktmbuf_pool_create(name, count, CACHE, 0, RTE_MBUF_DEFAULT_BUF_SIZE, socket);
    if (port->pool == NULL)
        return -rte_errno;
    error = set_up(port, socket);
    if (error)
        return error;
    error = rte_eth_dev_start(port->id);
    if (error)
        return error;
    /* Some software devices always receive all frames, and do not support the call. */
    error = promiscuous ? rte_eth_promiscuous_enable(port->id) : 0;
    return error == -ENOTSUP ? 0 : error;
}

static int probe(const char *device, uint32_t queues, uint32_t descriptors, int promiscuous,
                 struct kpps_dpdk_port **result)
{
    uint16_t id;
    if (port_of(device, &id) == 0) {
        static const char open[] = "DPDK has it already: another port uses it, or an argument of DPDK names it\n";
        keep(NULL, open, sizeof(open) - 1);
        return -EBUSY;
    }
    int error = rte_dev_probe(device);
    if (error)
        return error;
    error = port_of(device, &id);
    if (error)
        return error;
    struct rte_eth_dev_info info;
    struct kpps_dpdk_port *port = rte_zmalloc("kpps", sizeof(*port), RTE_CACHE_LINE_SIZE);
    if (port == NULL)
        return -ENOMEM;
    port->queues = rte_calloc("kpps", queues, sizeof(*port->queues), RTE_CACHE_LINE_SIZE);
    if (port->queues == NULL) {
        rte_free(port);
        return -ENOMEM;
    }
    port->id = id;
    port->count = queues;
    if (rte_eth_dev_info_get(id, &info) == 0)
        port->device = info.device;
    error = start(port, descriptors, promiscuous);
    if (error) {
        kpps_dpdk_close(port);
        return error;
    }
    *result = port;
    return 0;
}

int kpps_dpdk_open(const char *device, uint32_t queues, uint32_t descriptors, int promiscuous,
                   struct kpps_dpdk_port **result)
{
    /* Libraries below drivers, as libbpf, print remarks to standard error. */
    int saved = is_quiet ? silence(stderr) : -1;
    int error = probe(device, queues, descriptors, promiscuous, result);
    restore(stderr, saved);
    return error;
}

void kpps_dpdk_close(struct kpps_dpdk_port *port)
{
    int saved = is_quiet ? silence(stderr) : -1;
    for (uint16_t i = 0; i < port->count; i++) {
        struct kpps_dpdk_queue *queue = &port->queues[i];
        struct kpps_dpdk_burst *received = &queue->received, *sending = &queue->sending;
        rte_pktmbuf_free_bulk(queue->received_mbufs + queue->freed, received->filled - queue->freed);
        rte_pktmbuf_free_bulk(queue->sending_mbufs + sending->first, sending->end - sending->first);
    }
    if (rte_eth_promiscuous_get(port->id) == 1)
        rte_eth_promiscuous_disable(port->id);
    rte_eth_dev_stop(port->id);
    rte_eth_dev_close(port->id);
    if (port->device)
        rte_dev_remove(port->device);
    rte_mempool_free(port->pool);
    rte_free(port->queues);
    rte_free(port);
    restore(stderr, saved);
}

void kpps_dpdk_info(struct kpps_dpdk_port *port, struct kpps_dpdk_info *info)
{
    struct rte_ether_addr address;
    uint16_t mtu = RTE_ETHER_MTU;
    memset(info, 0, sizeof(*info));
    memcpy(info->driver, port->driver, sizeof(info->driver));
    if (rte_eth_macaddr_get(port->id, &address) == 0)
        memcpy(info->address, address.addr_bytes, RTE_ETHER_ADDR_LEN);
    rte_eth_dev_get_mtu(port->id, &mtu);
    info->mtu = mtu;
    info->room = rte_pktmbuf_data_room_size(port->pool) - RTE_PKTMBUF_HEADROOM;
    info->rx_descriptors = port->rx_descriptors;
    info->tx_descriptors = port->tx_descriptors;
}

int kpps_dpdk_link(struct kpps_dpdk_port *port, struct kpps_dpdk_link *result)
{
    struct rte_eth_link link;
    memset(&link, 0, sizeof(link));
    int error = rte_eth_link_get_nowait(port->id, &link);
    result->up = link.link_status == RTE_ETH_LINK_UP;
    result->speed_mbps = link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : link.link_speed;
    return error;
}

int kpps_dpdk_statistics(struct kpps_dpdk_port *port, struct kpps_dpdk_statistics *result)
{
    struct rte_eth_stats stats;
    memset(&stats, 0, sizeof(stats));
    int error = rte_eth_stats_get(port->id, &stats);
    result->missed = stats.imissed;
    result->no_buffer = stats.rx_nombuf;
    result->rx_errors = stats.ierrors;
    result->tx_errors = stats.oerrors;
    result->sent = stats.opackets;
    return error;
}

int kpps_dpdk_has_gone(struct kpps_dpdk_port *port)
{
    return rte_eth_dev_is_removed(port->id) == 1;
}

struct kpps_dpdk_queue *kpps_dpdk_queue(struct kpps_dpdk_port *port, uint32_t number) { return &port->queues[number]; }
struct kpps_dpdk_burst *kpps_dpdk_received(struct kpps_dpdk_queue *queue) { return &queue->received; }
struct kpps_dpdk_burst *kpps_dpdk_sending(struct kpps_dpdk_queue *queue) { return &queue->sending; }

void kpps_dpdk_receive(struct kpps_dpdk_queue *queue)
{
    struct kpps_dpdk_burst *burst = &queue->received;
    rte_pktmbuf_free_bulk(queue->received_mbufs + queue->freed, burst->first - queue->freed);
    queue->freed = burst->first;
    if (burst->first < burst->filled)
        return;
    uint32_t count = rte_eth_rx_burst(queue->port, queue->number, queue->received_mbufs, KPPS_DPDK_BURST);
    for (uint32_t i = 0; i < count; i++) {
        struct rte_mbuf *mbuf = queue->received_mbufs[i];
        burst->slots[i].data = rte_pktmbuf_mtod(mbuf, uint8_t *);
        rte_prefetch0(burst->slots[i].data);
        burst->slots[i].bytes = mbuf->nb_segs == 1 ? mbuf->data_len : 0;
    }
    burst->first = queue->freed = 0;
    burst->filled = burst->end = count;
}

uint32_t kpps_dpdk_send(struct kpps_dpdk_queue *queue)
{
    struct kpps_dpdk_burst *burst = &queue->sending;
    uint32_t sent = 0;
    for (uint32_t i = burst->first; i < burst->filled; i++) {
        struct rte_mbuf *mbuf = queue->sending_mbufs[i];
        mbuf->data_len = mbuf->pkt_len = burst->slots[i].bytes;
    }
    if (burst->first < burst->filled)
        sent = rte_eth_tx_burst(queue->port, queue->number, queue->sending_mbufs + burst->first, burst->filled - burst->first);
    burst->first += sent;
    if (burst->first < burst->end)
        return sent;
    burst->first = burst->filled = burst->end = 0;
    /* Free buffers have one segment and one owner. Nothing else of an earlier frame may be left. */
    if (rte_mempool_get_bulk(queue->pool, (void **)queue->sending_mbufs, KPPS_DPDK_BURST) == 0) {
        for (uint32_t i = 0; i < KPPS_DPDK_BURST; i++) {
            struct rte_mbuf *mbuf = queue->sending_mbufs[i];
            rte_pktmbuf_reset_headroom(mbuf);
            mbuf->ol_flags = 0;
            burst->slots[i].data = rte_pktmbuf_mtod(mbuf, uint8_t *);
        }
        burst->end = KPPS_DPDK_BURST;
    }
    return sent;
}
