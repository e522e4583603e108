//! Identification of the user at the other end of a loopback connection.
//!
//! The Runtime API has no credentials, because on AWS it can be reached only from inside the
//! function. The emulator provides it on a loopback port, to which every user of the machine can
//! connect.

use std::net::{SocketAddr, SocketAddrV4};

/// Path of the kernel's table of IPv4 connections.
const TABLE: &str = "/proc/net/tcp";
/// Maximum number of times that the table is read for one connection.
const READS: usize = 3;

/// Returns true if the socket that connected from `peer` to `local` belongs to another user.
///
/// Always returns false on systems without a table of connections.
pub(crate) fn is_foreign(peer: SocketAddr, local: SocketAddr) -> bool {
    let (SocketAddr::V4(peer), SocketAddr::V4(local)) = (peer, local) else { return false };
    // A table that changes while it is read may lack an entry.
    for _ in 0..READS {
        let Ok(table) = std::fs::read_to_string(TABLE) else { return false };
        if let Some(owner) = owner(&table, peer, local) {
            return owner != rustix::process::geteuid().as_raw();
        }
    }
    // The socket no longer exists, so no client waits for an answer.
    true
}

/// Returns the id of the user that owns the socket from `own` to `remote`, according to `table`.
fn owner(table: &str, own: SocketAddrV4, remote: SocketAddrV4) -> Option<u32> {
    let wanted = [own, remote]
        .map(|address| format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port()));
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let found = [fields.next()?, fields.next()?];
        // State, queues, timer and retransmissions precede the user id.
        (found == wanted).then(|| fields.nth(4)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_connection_of_this_process_belongs_to_its_user() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, local) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
        assert!(!is_foreign(peer, local));
        let (SocketAddr::V4(peer), SocketAddr::V4(local)) = (peer, local) else { unreachable!() };
        if let Ok(table) = std::fs::read_to_string(TABLE) {
            let own = rustix::process::geteuid().as_raw();
            assert_eq!(owner(&table, peer, local), Some(own));
            assert_eq!(owner(&table, peer, SocketAddrV4::new(*local.ip(), 1)), None);
        }
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn the_owner_is_the_eighth_field() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n   \
             0: 0100007F:1F90 0100007F:0016 01 00000000:00000000 00:00000000 00000000 65534        0 1\n";
        let at = |port| SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, port);
        assert_eq!(owner(table, at(8080), at(22)), Some(65534));
        assert_eq!(owner(table, at(22), at(8080)), None);
        assert_eq!(owner("", at(22), at(8080)), None);
    }
}
