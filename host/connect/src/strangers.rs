//! Table of connections that have not proved a token yet. Its size is limited.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::AbortHandle;

use crate::limits::{STRANGERS, STRANGERS_OF_ADDRESS};

/// Connections that have not proved a token yet, in order of arrival. Finished handshakes are
/// removed from the table.
#[derive(Debug)]
pub(crate) struct Strangers<H = AbortHandle> {
    slots: VecDeque<Slot<H>>,
}

impl<H> Default for Strangers<H> {
    fn default() -> Self {
        Self { slots: VecDeque::new() }
    }
}

#[derive(Debug)]
struct Slot<H> {
    address: IpAddr,
    /// True once the first byte of the connection has arrived.
    spoke: Arc<AtomicBool>,
    task: H,
}

/// A handshake in progress, which is a task of Tokio.
pub(crate) trait Handshake {
    /// Returns true if the handshake has ended.
    fn is_finished(&self) -> bool;
    /// Ends the handshake and its connection.
    fn abort(&self);
}

impl Handshake for AbortHandle {
    fn is_finished(&self) -> bool {
        Self::is_finished(self)
    }

    fn abort(&self) {
        Self::abort(self);
    }
}

impl<H: Handshake> Strangers<H> {
    /// Adds a connection whose handshake is `task`. Returns true if another connection was dropped
    /// to make space.
    ///
    /// If the table or the share of the address is full, one connection is dropped. It is the
    /// oldest connection that has sent no byte, or the oldest one if all have. Idle connections
    /// therefore never displace a worker during its handshake.
    pub(crate) fn add(&mut self, address: IpAddr, spoke: Arc<AtomicBool>, task: H) -> bool {
        let address = origin(address);
        self.slots.retain(|slot| !slot.task.is_finished());
        let of_address = self.slots.iter().filter(|slot| slot.address == address).count();
        let only_address = of_address >= STRANGERS_OF_ADDRESS;
        let dropped = if only_address || self.slots.len() >= STRANGERS {
            let candidate = |slot: &Slot<H>| !only_address || slot.address == address;
            let silent = |slot: &Slot<H>| candidate(slot) && !slot.spoke.load(Ordering::Relaxed);
            let at = self.slots.iter().position(silent).or_else(|| self.slots.iter().position(candidate));
            at.and_then(|at| self.slots.remove(at))
        } else {
            None
        };
        self.slots.push_back(Slot { address, spoke, task });
        dropped.is_some_and(|slot| {
            slot.task.abort();
            true
        })
    }
}

/// Returns the address to which the limit per address applies, which is an IPv4 address or a 64-bit
/// IPv6 prefix.
fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn table() -> (Strangers<AbortHandle>, tokio::runtime::Runtime) {
        (Strangers::default(), tokio::runtime::Builder::new_current_thread().build().unwrap())
    }

    fn ip(network: usize, host: usize) -> IpAddr {
        IpAddr::from([10, 0, network as u8, host as u8])
    }

    #[test]
    fn each_address_and_the_whole_table_have_limits() {
        let (mut strangers, runtime) = table();
        let add = |strangers: &mut Strangers<AbortHandle>, address| {
            let spoke = Arc::new(AtomicBool::new(false));
            let task = runtime.spawn(std::future::pending::<()>());
            (strangers.add(address, spoke.clone(), task.abort_handle()), spoke)
        };
        let spoke = add(&mut strangers, ip(0, 0)).1;
        spoke.store(true, Ordering::Relaxed);
        for _ in 1..STRANGERS_OF_ADDRESS {
            assert!(!add(&mut strangers, ip(0, 0)).0);
        }
        assert!(add(&mut strangers, ip(0, 0)).0, "the address has no free slot");
        assert!(!add(&mut strangers, ip(0, 1)).0, "another address has");
        assert!(strangers.slots[0].spoke.load(Ordering::Relaxed), "a silent stranger was dropped");
        for host in 2.. {
            if strangers.slots.len() == STRANGERS {
                break;
            }
            add(&mut strangers, ip(1 + host / 200, host % 200));
        }
        assert!(add(&mut strangers, ip(9, 9)).0);
        assert_eq!(strangers.slots.len(), STRANGERS);
        let mapped = "::ffff:10.0.0.7".parse().unwrap();
        assert_eq!(origin(mapped), ip(0, 7));
        let [one, two, other] = ["fd00::1:0:0:0:1", "fd00::1:0:0:0:2", "fd00::2:0:0:0:1"]
            .map(|text| origin(text.parse().unwrap()));
        assert!(one == two && one != other);
    }
}
