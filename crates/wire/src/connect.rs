//! From an address to a connection: names resolved once, TCP and TLS timed apart.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use spec::Nanos;
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::io::{Ear, LaneTime, Stamped, Stream};
use crate::socket::Socket;

/// Getting an answer from a name server may take this long.
const RESOLVE_LIMIT: Duration = Duration::from_secs(10);
/// While it is waited for, the stop flag is looked at this often.
const STOP_LOOK: Duration = Duration::from_millis(20);

/// Where the server is, taken apart; its addresses are frozen for the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// TLS is spoken.
    pub tls: bool,
    /// Name or address, without brackets.
    pub host: String,
    /// What the `host` header says.
    pub authority: String,
    /// Path in front of every path of the API, without a trailing slash.
    pub prefix: String,
    /// Addresses that the name stands for, in the order in which they are tried.
    pub addresses: Vec<SocketAddr>,
    /// The Unix socket that is spoken to instead; then there are no addresses.
    pub unix: Option<PathBuf>,
}

/// An address that leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Not an address of ours.
    #[error("`{url}` is no address: expected http://HOST:PORT or https://HOST, got {why}")]
    Malformed {
        /// As given.
        url: String,
        /// What is wrong.
        why: String,
    },
    /// No such name.
    #[error("the name `{host}` could not be resolved: {why}; check the spelling, or give the address itself")]
    Unresolved {
        /// The name.
        host: String,
        /// What the resolver said.
        why: String,
    },
}

impl Endpoint {
    /// Takes `url` apart and asks the system's resolver once.
    pub fn resolve(url: &str) -> Result<Self, EndpointError> {
        let never = AtomicBool::new(false);
        match Endpoint::resolve_until(url, &never)? {
            Some(endpoint) => Ok(endpoint),
            None => Err(EndpointError::Unresolved { host: url.to_owned(), why: "stopped".to_owned() }),
        }
    }
    /// The same; `None`: `stop` was set while the resolver was waited for.
    pub fn resolve_until(url: &str, stop: &AtomicBool) -> Result<Option<Self>, EndpointError> {
        let (mut endpoint, port) = Endpoint::parse(url)?;
        let Some(addresses) = lookup(endpoint.host.clone(), port, stop)? else { return Ok(None) };
        endpoint.addresses = addresses;
        Ok(Some(endpoint))
    }
    /// Takes `url` apart for its `host` header and its path; spoken to over a Unix socket.
    pub fn over_unix(url: &str, socket: &Path) -> Result<Self, EndpointError> {
        Ok(Endpoint { unix: Some(socket.to_owned()), ..Endpoint::parse(url)?.0 })
    }
    /// Takes `url` apart; the second is the port.
    fn parse(url: &str) -> Result<(Self, u16), EndpointError> {
        let malformed =
            |why: &str| EndpointError::Malformed { url: spec::secret::redact_url(url), why: why.to_owned() };
        let uri: http::Uri = url.parse().map_err(|e: http::uri::InvalidUri| malformed(&e.to_string()))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            other => return Err(malformed(&format!("the scheme `{}`", other.unwrap_or("none")))),
        };
        let authority = uri.authority().ok_or_else(|| malformed("no host"))?;
        if authority.as_str().contains('@') {
            return Err(malformed(
                "a user name in the address; give the key by --api-key-env VARIABLE, or a password by --header",
            ));
        }
        if uri.query().is_some() {
            return Err(malformed("a query; give a path only"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(malformed("no host"));
        }
        let behind_host = authority.as_str().len() - authority.host().len();
        if behind_host > 0 && authority.port_u16().is_none() {
            return Err(malformed("a port that is no number up to 65535"));
        }
        let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let endpoint = Endpoint {
            tls,
            host,
            authority: authority.as_str().to_owned(),
            prefix: uri.path().trim_end_matches('/').to_owned(),
            addresses: Vec::new(),
            unix: None,
        };
        Ok((endpoint, port))
    }
    /// The port of the addresses.
    pub fn port(&self) -> u16 {
        self.addresses.first().map_or(0, SocketAddr::port)
    }
    /// The addresses that connections from `sources` can go to: of a family that has a source. From no
    /// particular source: all.
    pub fn addresses_from<'a>(&'a self, sources: &'a [IpAddr]) -> impl Iterator<Item = SocketAddr> + 'a {
        let fits =
            |to: &SocketAddr| sources.is_empty() || sources.iter().any(|from| from.is_ipv4() == to.is_ipv4());
        self.addresses.iter().copied().filter(fits)
    }
    /// Tries this address before the others from now on.
    pub fn prefer(&mut self, address: SocketAddr) {
        if let Some(at) = self.addresses.iter().position(|a| *a == address) {
            self.addresses[..=at].rotate_right(1);
        }
    }
    /// A path of the API as it is asked for.
    pub fn path(&self, path: &str) -> String {
        format!("{}/{}", self.prefix, path.trim_start_matches('/'))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", if self.tls { "https" } else { "http" }, self.authority, self.prefix)
    }
}

fn lookup(host: String, port: u16, stop: &AtomicBool) -> Result<Option<Vec<SocketAddr>>, EndpointError> {
    let unresolved = |why: String| EndpointError::Unresolved { host: host.clone(), why };
    let (send, receive) = std::sync::mpsc::channel();
    let name = host.clone();
    // The system's resolver knows no time limit, so it gets a thread that may be left behind.
    let spawned = std::thread::Builder::new().name("resolver".into()).spawn(move || {
        let found = (name.as_str(), port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
        let _ = send.send(found);
    });
    spawned.map_err(|e| unresolved(e.to_string()))?;
    let begun = clock::Clock::start();
    let answer = loop {
        match receive.recv_timeout(STOP_LOOK) {
            Err(RecvTimeoutError::Timeout) if stop.load(Relaxed) => return Ok(None),
            Err(RecvTimeoutError::Timeout) if begun.now().duration() < RESOLVE_LIMIT => {}
            answer => break answer,
        }
    };
    match answer {
        Ok(Ok(found)) if found.is_empty() => Err(unresolved("the name has no address".into())),
        Ok(Ok(mut found)) => {
            let mut seen = std::collections::HashSet::new();
            found.retain(|address| seen.insert(*address));
            Ok(Some(found))
        }
        Ok(Err(error)) => Err(unresolved(error.to_string())),
        Err(_) => Err(unresolved(format!("no answer in {} s", RESOLVE_LIMIT.as_secs()))),
    }
}

/// TLS options that lead nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("TLS cannot be set up: {0}")]
pub struct TlsSetupError(String);

/// HTTP/2 as ALPN names it.
const HTTP2: &[u8] = b"h2";

/// What is needed to open connections to an endpoint.
#[derive(Debug, Clone)]
pub struct Dialer {
    /// Where to.
    pub endpoint: Endpoint,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    sources: Vec<IpAddr>,
    /// Connections opened, over all lanes: sources are used in turn.
    turn: Arc<AtomicUsize>,
    http2: bool,
}

/// A new connection, and what it took.
#[derive(Debug)]
pub struct Dialed {
    /// The socket's own knowledge.
    pub ear: Rc<Ear>,
    /// To speak over.
    pub stream: Stream,
    /// TCP handshake.
    pub connect: Nanos,
    /// TLS handshake.
    pub tls: Option<Nanos>,
}

/// No connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    /// TCP.
    #[error("{0}")]
    Connect(String),
    /// TLS.
    #[error("{0}")]
    Tls(String),
    /// A limit of this machine: no server is to blame.
    #[error("{0}")]
    OwnLimit(String),
}

impl Dialer {
    /// A dialer to `endpoint`; reads the system's roots and `cacert` when TLS is spoken.
    pub fn new(endpoint: Endpoint, options: &spec::Tls) -> Result<Self, TlsSetupError> {
        let tls = match endpoint.tls {
            false => None,
            true => {
                let name = ServerName::try_from(endpoint.host.clone()).map_err(|e| {
                    TlsSetupError(format!("`{}` is no name for a certificate: {e}", endpoint.host))
                })?;
                Some((Arc::new(crate::tls::client_config(options).map_err(TlsSetupError)?), name))
            }
        };
        Ok(Dialer { endpoint, tls, sources: Vec::new(), turn: Arc::default(), http2: false })
    }

    /// Connections leave from these addresses in turn; from none in particular: as the system chooses.
    #[must_use]
    pub fn from_sources(self, sources: &[IpAddr]) -> Self {
        Dialer { sources: sources.to_vec(), ..self }
    }

    /// HTTP/2 is spoken: with TLS it is agreed on by ALPN.
    #[must_use]
    pub fn with_http2(mut self) -> Self {
        if let Some((config, _)) = &mut self.tls {
            Arc::make_mut(config).alpn_protocols = vec![HTTP2.to_vec()];
        }
        Dialer { http2: true, ..self }
    }
    /// HTTP/2 is spoken.
    pub fn is_http2(&self) -> bool {
        self.http2
    }

    /// Opens a connection; the addresses are tried in order. No time limit of its own.
    pub async fn dial(&self, time: &Rc<LaneTime>) -> Result<Dialed, DialError> {
        let begin = time.now();
        let (socket, address) = match &self.endpoint.unix {
            None => {
                let (tcp, address) = self.tcp().await?;
                (Socket::Tcp(tcp), address.to_string())
            }
            Some(path) => {
                let address = path.display().to_string();
                let failed = |error: std::io::Error| match own_limit(&error) {
                    None => DialError::Connect(format!("{address}: {error}")),
                    Some(advice) => DialError::OwnLimit(format!("{address}: {error}{advice}")),
                };
                (Socket::Unix(UnixStream::connect(path).await.map_err(failed)?), address)
            }
        };
        let ear = Ear::new(socket, time.clone());
        let stood = time.now();
        let connect = stood.saturating_since(begin);
        let socket = Stamped(ear.clone());
        let (stream, tls) = match &self.tls {
            None => (Stream::Plain(socket), None),
            Some((config, name)) => {
                let session = TlsConnector::from(config.clone())
                    .connect(name.clone(), socket)
                    .await
                    .map_err(|e| DialError::Tls(format!("TLS with {address}: {e}")))?;
                if self.http2 && session.get_ref().1.alpn_protocol() != Some(HTTP2) {
                    return Err(DialError::Tls(format!(
                        "{address} does not agree to HTTP/2 (ALPN `h2`); leave --http2 out, or have the server speak it"
                    )));
                }
                (Stream::Tls(Box::new(session)), Some(time.now().saturating_since(stood)))
            }
        };
        Ok(Dialed { ear, stream, connect, tls })
    }

    async fn tcp(&self) -> Result<(TcpStream, SocketAddr), DialError> {
        let mut failures = Vec::new();
        let mut own = false;
        for address in self.endpoint.addresses_from(&self.sources) {
            let source = self.source(address);
            let connected = match source {
                None => TcpStream::connect(address).await,
                Some(source) => connect_from(source, address).await,
            };
            match connected {
                Ok(tcp) => {
                    tcp.set_nodelay(true).map_err(|e| DialError::Connect(format!("{address}: {e}")))?;
                    return Ok((tcp, address));
                }
                Err(error) => {
                    let from = source.map_or_else(String::new, |source| format!(" from {source}"));
                    let advice = own_limit(&error);
                    own |= advice.is_some();
                    failures.push(format!("{address}{from}: {error}{}", advice.unwrap_or_default()));
                }
            }
        }
        if failures.is_empty() {
            failures.push("no source address is of the family of an address of the target".to_owned());
        }
        let words = failures.join("; ");
        Err(if own { DialError::OwnLimit(words) } else { DialError::Connect(words) })
    }

    /// The source whose turn it is among those of the family of `to`.
    fn source(&self, to: SocketAddr) -> Option<IpAddr> {
        let fits = |from: &&IpAddr| from.is_ipv4() == to.is_ipv4();
        let fitting = self.sources.iter().filter(fits).count();
        let turn = self.turn.fetch_add(usize::from(fitting > 0), Relaxed);
        self.sources.iter().filter(fits).nth(turn.checked_rem(fitting)?).copied()
    }
}

async fn connect_from(source: IpAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    choose_port_late(&socket);
    socket.bind(SocketAddr::new(source, 0))?;
    socket.connect(to).await
}

/// Lets the kernel choose the port when it knows the target too: chosen before, each port could
/// carry one connection only, whatever the number of targets. An older kernel refuses, no harm done.
fn choose_port_late(socket: &TcpSocket) {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        let on: libc::c_int = 1;
        // SAFETY: the descriptor is open while borrowed; the value is one c_int, as its length says.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_IP,
                libc::IP_BIND_ADDRESS_NO_PORT,
                (&raw const on).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            );
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
}

/// What to do, where a limit of this machine stood in the way.
fn own_limit(error: &std::io::Error) -> Option<&'static str> {
    match error.raw_os_error()? {
        libc::EMFILE | libc::ENFILE => {
            Some(" (this machine's limit of open files, not the server's: raise `ulimit -n`)")
        }
        libc::EADDRNOTAVAIL => Some(
            " (this machine has no free port left, or a --bind address is not its own: keep connections alive, or see `ip addr`)",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let e = Endpoint::resolve("http://127.0.0.1:8000/v2/").unwrap();
        assert_eq!((e.tls, e.host.as_str(), e.authority.as_str()), (false, "127.0.0.1", "127.0.0.1:8000"));
        assert_eq!(e.path("/v1/models"), "/v2/v1/models");
        assert_eq!(e.addresses, ["127.0.0.1:8000".parse().unwrap()]);
        assert_eq!(e.to_string(), "http://127.0.0.1:8000/v2");
        let e = Endpoint::resolve("https://[::1]").unwrap();
        assert_eq!((e.tls, e.host.as_str()), (true, "::1"));
        assert_eq!(e.addresses, ["[::1]:443".parse().unwrap()]);
        assert_eq!(e.path("health"), "/health");
        let mut e = Endpoint {
            addresses: ["1.1.1.1:1", "2.2.2.2:2", "3.3.3.3:3"].map(|a| a.parse().unwrap()).to_vec(),
            ..e
        };
        e.prefer("3.3.3.3:3".parse().unwrap());
        e.prefer("9.9.9.9:9".parse().unwrap());
        assert_eq!(e.addresses, ["3.3.3.3:3", "1.1.1.1:1", "2.2.2.2:2"].map(|a| a.parse().unwrap()));
        for bad in ["ftp://x", "127.0.0.1:80", "http://u:p@h/", "http://h/?a=b", "http://", "http://h:99999"]
        {
            assert!(matches!(Endpoint::resolve(bad), Err(EndpointError::Malformed { .. })), "{bad}");
        }
    }

    #[test]
    fn sources_take_turns_within_their_family() {
        let endpoint = Endpoint::resolve("http://127.0.0.1:9").unwrap();
        let sources = ["127.0.0.2", "::1", "127.0.0.3"].map(|a| a.parse().unwrap());
        let dialer = Dialer::new(endpoint.clone(), &spec::Tls::default()).unwrap().from_sources(&sources);
        let to = |text: &str| text.parse().unwrap();
        let turns: Vec<_> = (0..4).map(|_| dialer.source(to("127.0.0.1:9")).unwrap().to_string()).collect();
        assert_eq!(turns, ["127.0.0.2", "127.0.0.3", "127.0.0.2", "127.0.0.3"]);
        assert_eq!(dialer.source(to("[::1]:9")), Some(sources[1]));
        assert_eq!(endpoint.addresses_from(&sources[1..2]).count(), 0);
        assert_eq!(Dialer::new(endpoint, &spec::Tls::default()).unwrap().source(to("127.0.0.1:9")), None);
    }

    #[test]
    fn a_name_that_does_not_exist_says_so() {
        let error = Endpoint::resolve("http://no-such-host.invalid:1").unwrap_err();
        assert!(matches!(&error, EndpointError::Unresolved { host, .. } if host == "no-such-host.invalid"));
    }
}
