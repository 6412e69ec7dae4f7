/* The interface between kpps and DPDK. The receive and transmit functions of DPDK are inline functions of its
 * headers, and its structures change from release to release. So this interface, which does not change, is
 * compiled against the headers of the DPDK that is installed.
 *
 * Functions return 0, or the error as a negative number of errno(3). A queue belongs to one thread at a time. */

#ifndef KPPS_DPDK_H
#define KPPS_DPDK_H

#include <stddef.h>
#include <stdint.h>

/* The version of this interface: another number after each change. */
#define KPPS_DPDK_ABI 2

/* Frames of a burst at most. */
#define KPPS_DPDK_BURST 64

/* A frame in a buffer of DPDK. */
struct kpps_dpdk_slot {
    uint8_t *data;
    /* Without FCS; 0: a received frame that is not in one buffer. */
    uint32_t bytes;
    uint32_t reserved;
};

/* The frames of a burst. `first` to `filled`: received and not read yet, or queued and not sent yet.
 * `filled` to `end`: empty buffers for frames that are to be sent. */
struct kpps_dpdk_burst {
    uint32_t first, filled, end, reserved;
    struct kpps_dpdk_slot slots[KPPS_DPDK_BURST];
};

/* The properties of a port when it is opened. */
struct kpps_dpdk_info {
    char driver[64];
    uint8_t address[8]; /* 6 bytes */
    uint32_t mtu;
    uint32_t room; /* Bytes of a buffer. */
    uint32_t rx_descriptors, tx_descriptors;
};

struct kpps_dpdk_link {
    uint32_t up, speed_mbps; /* 0: unknown */
};

/* Counters of a port since its device was probed. */
struct kpps_dpdk_statistics {
    uint64_t missed, no_buffer, rx_errors, tx_errors, sent;
};

struct kpps_dpdk_port;
/* A queue of a port in each direction. */
struct kpps_dpdk_queue;

uint32_t kpps_dpdk_abi(void);
/* The DPDK against which this was compiled, and the one that is loaded; and whether the first may use the
 * second: they are of the same year and month. */
const char *kpps_dpdk_compiled(void);
const char *kpps_dpdk_loaded(void);
int kpps_dpdk_fits(void);
/* Initialises DPDK's environment, once in a process. With `quiet` its messages go to kpps_dpdk_messages. */
int kpps_dpdk_start(int argc, char **argv, int quiet);
/* Copies the messages since the last call, and forgets them. */
void kpps_dpdk_messages(char *text, size_t bytes);
/* This thread gets, or returns, a number of its own, and with it caches of buffers. */
int kpps_dpdk_enter(void);
void kpps_dpdk_leave(void);
/* Probes a device, and starts its port with this number of queues in each direction. Where the device can, it
 * gives all frames of a flow to the same queue. */
int kpps_dpdk_open(const char *device, uint32_t queues, uint32_t descriptors, int promiscuous,
                   struct kpps_dpdk_port **port);
/* Stops a port and removes its device. */
void kpps_dpdk_close(struct kpps_dpdk_port *port);
void kpps_dpdk_info(struct kpps_dpdk_port *port, struct kpps_dpdk_info *info);
int kpps_dpdk_link(struct kpps_dpdk_port *port, struct kpps_dpdk_link *link);
int kpps_dpdk_statistics(struct kpps_dpdk_port *port, struct kpps_dpdk_statistics *statistics);
/* Whether the device has gone. */
int kpps_dpdk_has_gone(struct kpps_dpdk_port *port);
/* A queue of a port, as long as the port is open. `number` is less than the port's number of queues. */
struct kpps_dpdk_queue *kpps_dpdk_queue(struct kpps_dpdk_port *port, uint32_t number);
/* The bursts of a queue, as long as its port is open. */
struct kpps_dpdk_burst *kpps_dpdk_received(struct kpps_dpdk_queue *queue);
struct kpps_dpdk_burst *kpps_dpdk_sending(struct kpps_dpdk_queue *queue);
/* Frees the frames before `first`. If none are left, receives more. */
void kpps_dpdk_receive(struct kpps_dpdk_queue *queue);
/* Sends queued frames; those that the device does not take stay queued. If no buffer is left, takes new ones.
 * Returns the number of sent frames. */
uint32_t kpps_dpdk_send(struct kpps_dpdk_queue *queue);

#endif
