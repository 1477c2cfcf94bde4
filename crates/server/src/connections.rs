//! The open connections of a listener, their limits, and the eviction of unauthenticated ones when the limits are
//! reached.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::future::{Future, Ready, ready};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::Router;
use axum::http::Request;
use axum_server::accept::Accept;
use recorder::lock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tower::Service;

/// Limits on concurrent connections.
#[derive(Clone, Copy)]
pub(super) struct ConnectionLimits {
    pub(super) total: usize,
    /// From one client address.
    pub(super) per_peer: usize,
}

/// The open connections of one listener.
pub(super) struct Connections {
    limits: ConnectionLimits,
    open: Mutex<OpenConnections>,
}

/// A connection's entry among the open ones, removed when this is dropped.
pub(super) struct ConnectionSlot {
    id: u64,
    connections: Arc<Connections>,
    /// Resolves when the connection is evicted. Taken by its stream.
    evicted: Mutex<Option<oneshot::Receiver<()>>>,
}

/// The service of one connection. It adds the connection's slot to the extensions of each request.
#[derive(Clone)]
pub(super) struct ConnectionService {
    router: Router,
    slot: Arc<ConnectionSlot>,
}

/// An acceptor that wraps each connection's stream in an [`EvictableStream`].
#[derive(Clone)]
pub(super) struct EvictingAcceptor;

/// A stream whose reads and writes fail once its connection is evicted.
pub(super) struct EvictableStream<S> {
    stream: S,
    /// `None` once it was evicted.
    evicted: Option<oneshot::Receiver<()>>,
    _slot: Arc<ConnectionSlot>,
}

#[derive(Default)]
struct OpenConnections {
    /// In the order in which they were accepted.
    all: BTreeMap<u64, OpenConnection>,
    next: u64,
}

struct OpenConnection {
    peer: IpAddr,
    /// Whether one of its requests was authenticated.
    authenticated: bool,
    /// Dropping this evicts the connection.
    _evict: oneshot::Sender<()>,
}

// === impl Connections ===

impl Connections {
    pub(super) fn new(limits: ConnectionLimits) -> Arc<Connections> {
        Arc::new(Connections { limits, open: Mutex::default() })
    }

    /// Returns a slot for a new connection. At the limit an unauthenticated connection is evicted for it; `None` if
    /// every connection is authenticated.
    pub(super) fn admit(self: &Arc<Connections>, peer: SocketAddr) -> Option<ConnectionSlot> {
        let peer = address_group(peer.ip());
        let mut open = lock(&self.open);
        let of_peer = open.all.values().filter(|connection| connection.peer == peer).count();
        let has_room = (of_peer < self.limits.per_peer || open.evict(|connection| connection.peer == peer))
            && (open.all.len() < self.limits.total || open.evict(|_| true));
        if !has_room {
            return None;
        }
        let id = open.next;
        open.next += 1;
        let (evict, evicted) = oneshot::channel();
        open.all.insert(id, OpenConnection { peer, authenticated: false, _evict: evict });
        Some(ConnectionSlot { id, connections: self.clone(), evicted: Mutex::new(Some(evicted)) })
    }
}

// === impl OpenConnections ===

impl OpenConnections {
    /// Evicts an unauthenticated connection among those selected, if there is one: the oldest of the address with most
    /// connections. So a flood from some addresses does not evict the only connection of another.
    fn evict(&mut self, is_meant: impl Fn(&OpenConnection) -> bool) -> bool {
        let mut count_by_peer: HashMap<IpAddr, usize> = HashMap::new();
        for connection in self.all.values() {
            *count_by_peer.entry(connection.peer).or_default() += 1;
        }
        let unauthenticated =
            self.all.iter().filter(|(_, connection)| !connection.authenticated && is_meant(connection));
        let victim = unauthenticated
            .max_by_key(|(id, connection)| (count_by_peer.get(&connection.peer), Reverse(**id)));
        let victim = victim.map(|(id, _)| *id);
        victim.is_some_and(|id| self.all.remove(&id).is_some())
    }
}

/// The address, or for IPv6 its /64 network, which usually belongs to one machine.
fn address_group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        address => address,
    }
}

// === impl ConnectionSlot ===

impl ConnectionSlot {
    /// Marks the connection as authenticated, which exempts it from eviction.
    pub(super) fn set_authenticated(&self) {
        if let Some(open) = lock(&self.connections.open).all.get_mut(&self.id) {
            open.authenticated = true;
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        lock(&self.connections.open).all.remove(&self.id);
    }
}

// === impl ConnectionService ===

impl ConnectionService {
    pub(super) fn new(router: Router, slot: ConnectionSlot) -> ConnectionService {
        ConnectionService { router, slot: Arc::new(slot) }
    }
}

impl<B> Service<Request<B>> for ConnectionService
where
    Router: Service<Request<B>>,
{
    type Response = <Router as Service<Request<B>>>::Response;
    type Error = <Router as Service<Request<B>>>::Error;
    type Future = <Router as Service<Request<B>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        <Router as Service<Request<B>>>::poll_ready(&mut self.router, context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        request.extensions_mut().insert(self.slot.clone());
        self.router.call(request)
    }
}

// === impl EvictingAcceptor ===

impl<S> Accept<S, ConnectionService> for EvictingAcceptor {
    type Stream = EvictableStream<S>;
    type Service = ConnectionService;
    type Future = Ready<io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: S, service: ConnectionService) -> Self::Future {
        let evicted = lock(&service.slot.evicted).take();
        let stream = EvictableStream { stream, evicted, _slot: service.slot.clone() };
        ready(Ok((stream, service)))
    }
}

// === impl EvictableStream ===

impl<S> EvictableStream<S> {
    /// Returns an error once the connection is evicted, and registers the task to be woken when it is.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if let Some(evicted) = &mut self.evicted
            && Pin::new(evicted).poll(context).is_ready()
        {
            self.evicted = None;
        }
        match self.evicted {
            Some(_) => Ok(()),
            None => Err(io::Error::new(io::ErrorKind::ConnectionAborted, "evicted for another connection")),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for EvictableStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for EvictableStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(total: usize, per_peer: usize) -> Arc<Connections> {
        Connections::new(ConnectionLimits { total, per_peer })
    }

    fn peer(address: &str) -> SocketAddr {
        SocketAddr::new(address.parse().unwrap(), 4711)
    }

    fn is_evicted(slot: &ConnectionSlot) -> bool {
        let mut evicted = lock(&slot.evicted);
        evicted
            .as_mut()
            .is_some_and(|evicted| evicted.try_recv() == Err(oneshot::error::TryRecvError::Closed))
    }

    #[test]
    fn the_oldest_connection_without_authentication_makes_room() {
        let connections = connections(3, 3);
        let all = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
            .map(|connection| connections.admit(peer(connection)).unwrap());
        all[0].set_authenticated();
        let fourth = connections.admit(peer("10.0.0.4")).unwrap();
        assert_eq!(all.each_ref().map(is_evicted), [false, true, false]);
        // If all are authenticated none is evicted.
        all[2].set_authenticated();
        fourth.set_authenticated();
        assert!(connections.admit(peer("10.0.0.5")).is_none());
        drop(fourth);
        assert!(connections.admit(peer("10.0.0.5")).is_some());
    }

    #[test]
    fn one_address_does_not_take_all_slots() {
        let connections = connections(10, 2);
        let known = connections.admit(peer("10.0.0.1")).unwrap();
        known.set_authenticated();
        let stranger = connections.admit(peer("10.0.0.1")).unwrap();
        let other = connections.admit(peer("10.0.0.2")).unwrap();
        let next = connections.admit(peer("10.0.0.1")).unwrap();
        assert_eq!([&known, &stranger, &other, &next].map(is_evicted), [false, true, false, false]);
        next.set_authenticated();
        assert!(connections.admit(peer("10.0.0.1")).is_none());
        assert!(connections.admit(peer("::ffff:10.0.0.1")).is_none());
        assert!(connections.admit(peer("10.0.0.2")).is_some());
    }

    #[test]
    fn the_address_with_most_connections_makes_room_first() {
        let connections = connections(4, 4);
        let all = ["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.3"];
        let all = all.map(|connection| connections.admit(peer(connection)).unwrap());
        let _fifth = connections.admit(peer("10.0.0.4")).unwrap();
        assert_eq!(all.each_ref().map(is_evicted), [false, true, false, false]);
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        let connections = connections(10, 1);
        let first = connections.admit(peer("2001:db8::1")).unwrap();
        let other = connections.admit(peer("2001:db8:0:1::1")).unwrap();
        let _next = connections.admit(peer("2001:db8::2")).unwrap();
        assert_eq!([&first, &other].map(is_evicted), [true, false]);
    }
}
