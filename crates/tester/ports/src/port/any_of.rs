//! One descriptor for several sockets.

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Descriptors that become readable when one of several sockets has received something. An epoll descriptor
/// is never writable, so there are two.
#[derive(Debug)]
pub(super) struct AnyOf {
    received: OwnedFd,
    /// Readable also when the first socket, which sends, has transmit space.
    received_or_room: OwnedFd,
}

impl AnyOf {
    /// Watches these sockets.
    pub(super) fn of<'s>(sockets: impl IntoIterator<Item = BorrowedFd<'s>>) -> io::Result<Self> {
        let new = || epoll::create(CreateFlags::CLOEXEC);
        let (received, received_or_room) = (new()?, new()?);
        let data = EventData::new_u64(0);
        epoll::add(&received_or_room, &received, data, EventFlags::IN)?;
        for (number, socket) in sockets.into_iter().enumerate() {
            epoll::add(&received, socket, data, EventFlags::IN)?;
            if number == 0 {
                epoll::add(&received_or_room, socket, data, EventFlags::OUT)?;
            }
        }
        Ok(Self { received, received_or_room })
    }

    /// The descriptor to poll for reading; with `room`, also for transmit space of the first socket.
    pub(super) fn fd(&self, room: bool) -> BorrowedFd<'_> {
        if room { self.received_or_room.as_fd() } else { self.received.as_fd() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::os::unix::net::UnixDatagram;

    fn readable(fd: BorrowedFd<'_>) -> bool {
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&Timespec::default())).unwrap() > 0
    }

    #[test]
    fn it_is_readable_when_one_of_them_is_or_when_the_first_has_room() {
        let pairs = [0, 1, 2].map(|_| UnixDatagram::pair().unwrap());
        let any = AnyOf::of(pairs.iter().map(|(here, _)| here.as_fd())).unwrap();
        assert!(!readable(any.fd(false)) && readable(any.fd(true)), "there is room");
        // No transmit space at the first.
        pairs[0].0.set_nonblocking(true).unwrap();
        while pairs[0].0.send(&[0; 1 << 10]).is_ok() {}
        assert!(!readable(any.fd(false)) && !readable(any.fd(true)));
        for (here, there) in &pairs {
            there.send(b"frame").unwrap();
            assert!(readable(any.fd(false)) && readable(any.fd(true)));
            here.recv(&mut [0; 9]).unwrap();
            assert!(!readable(any.fd(false)) && !readable(any.fd(true)));
        }
        while pairs[0].1.recv(&mut [0; 1 << 10]).is_ok_and(|bytes| bytes > 0) && !readable(any.fd(true)) {}
        assert!(!readable(any.fd(false)) && readable(any.fd(true)), "there is room again");
    }
}
