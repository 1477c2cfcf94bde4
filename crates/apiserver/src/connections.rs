//! The open connections of a listener: a bounded number, of which those without an authenticated request make room for
//! others, and do not stay for long.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;

/// Limits of the connections of a listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    /// The most connections.
    pub(crate) total: usize,
    /// The longest time between the begin of a connection and the headers of its first authenticated request.
    pub(crate) authentication_timeout: Duration,
}

/// The open connections of a listener.
pub(crate) struct Connections {
    limits: ConnectionLimits,
    open: Mutex<OpenConnections>,
}

/// An admitted connection.
pub(crate) struct Admission {
    slot: Arc<ConnectionSlot>,
    /// Resolves when the connection is evicted.
    evicted: oneshot::Receiver<()>,
}

/// A connection's entry among the open ones, removed when this is dropped. It is an extension of the connection's
/// requests.
pub(crate) struct ConnectionSlot {
    id: u64,
    connections: Arc<Connections>,
}

#[derive(Default)]
struct OpenConnections {
    /// In the order in which they were accepted.
    all: BTreeMap<u64, OpenConnection>,
    next_id: u64,
}

struct OpenConnection {
    peer: IpAddr,
    /// Whether one of its requests was authenticated.
    is_authenticated: bool,
    /// Dropping this evicts the connection.
    _evict: oneshot::Sender<()>,
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        // Half of the usual limit of open files per process.
        ConnectionLimits { total: 512, authentication_timeout: Duration::from_secs(10) }
    }
}

// === impl Connections ===

impl Connections {
    pub(crate) fn new(limits: ConnectionLimits) -> Arc<Connections> {
        Arc::new(Connections { limits, open: Mutex::default() })
    }

    /// Admits a new connection. At the limit an unauthenticated one is evicted for it; `None` if there is none.
    pub(crate) fn admit(self: &Arc<Connections>, peer: SocketAddr) -> Option<Admission> {
        let mut open = self.lock();
        if open.all.len() >= self.limits.total && !open.evict() {
            return None;
        }
        let id = open.next_id;
        open.next_id += 1;
        let (evict, evicted) = oneshot::channel();
        let peer = peer.ip().to_canonical();
        open.all.insert(id, OpenConnection { peer, is_authenticated: false, _evict: evict });
        let slot = Arc::new(ConnectionSlot { id, connections: self.clone() });
        Some(Admission { slot, evicted })
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Admission ===

impl Admission {
    pub(crate) fn slot(&self) -> &Arc<ConnectionSlot> {
        &self.slot
    }

    /// Resolves when the connection must be closed: it was evicted, or its client did not authenticate in time.
    pub(crate) async fn withdrawn(mut self) {
        tokio::select! {
            _ = &mut self.evicted => return,
            () = sleep(self.slot.connections.limits.authentication_timeout) => {}
        }
        if self.slot.is_authenticated() {
            let _ = self.evicted.await;
        }
    }
}

// === impl ConnectionSlot ===

impl ConnectionSlot {
    /// Lets the connection stay: a request of it was authenticated.
    pub(crate) fn set_authenticated(&self) {
        if let Some(connection) = self.connections.lock().all.get_mut(&self.id) {
            connection.is_authenticated = true;
        }
    }

    fn is_authenticated(&self) -> bool {
        self.connections.lock().all.get(&self.id).is_some_and(|connection| connection.is_authenticated)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.lock().all.remove(&self.id);
    }
}

// === impl OpenConnections ===

impl OpenConnections {
    /// Evicts an unauthenticated connection, if there is one: the oldest of the address with most connections, so that
    /// a flood from some addresses does not evict the only connection of another.
    fn evict(&mut self) -> bool {
        let mut count_by_peer: HashMap<IpAddr, usize> = HashMap::new();
        for connection in self.all.values() {
            *count_by_peer.entry(connection.peer).or_default() += 1;
        }
        let unauthenticated = self.all.iter().filter(|(_, connection)| !connection.is_authenticated);
        let victim = unauthenticated
            .max_by_key(|(id, connection)| (count_by_peer.get(&connection.peer), Reverse(**id)))
            .map(|(id, _)| *id);
        victim.is_some_and(|id| self.all.remove(&id).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(connections: &Arc<Connections>, address: &str) -> Option<Admission> {
        connections.admit(SocketAddr::new(address.parse().unwrap(), 4711))
    }

    fn is_evicted(admission: &mut Admission) -> bool {
        admission.evicted.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    fn connections(total: usize) -> Arc<Connections> {
        Connections::new(ConnectionLimits { total, ..ConnectionLimits::default() })
    }

    #[test]
    fn the_oldest_unauthenticated_connection_makes_room() {
        let connections = connections(2);
        let mut first = admit(&connections, "10.0.0.1").unwrap();
        let mut second = admit(&connections, "10.0.0.1").unwrap();
        first.slot.set_authenticated();
        let third = admit(&connections, "10.0.0.1").unwrap();
        assert_eq!([is_evicted(&mut first), is_evicted(&mut second)], [false, true]);
        third.slot.set_authenticated();
        assert!(admit(&connections, "10.0.0.2").is_none());
        drop(first);
        assert!(admit(&connections, "10.0.0.2").is_some());
    }

    #[test]
    fn the_address_with_most_connections_makes_room_first() {
        let connections = connections(3);
        let mut single = admit(&connections, "10.0.0.1").unwrap();
        let mut flood = ["10.0.0.2", "::ffff:10.0.0.2"].map(|address| admit(&connections, address).unwrap());
        let _next = admit(&connections, "10.0.0.3").unwrap();
        assert!(!is_evicted(&mut single));
        assert_eq!(flood.each_mut().map(is_evicted), [true, false]);
    }
}
