//! A server that speaks HTTP/2 only: by prior knowledge, or over TLS.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{finish, token};

/// What it was asked.
#[derive(Default)]
pub struct Seen {
    pub requests: AtomicU32,
    pub connections: AtomicU32,
    /// Requests under way at once on one connection, at most.
    pub peak: AtomicU32,
}

/// Starts it. Each answer is a stream of two tokens, 20 ms apart; requests to `/bad` get a 404.
pub fn start(tls: Option<rustls::ServerConfig>) -> (SocketAddr, Arc<Seen>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new(Seen::default());
    let told = seen.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, serve(listener, tls, told));
    });
    (address, seen)
}

async fn serve(listener: std::net::TcpListener, tls: Option<rustls::ServerConfig>, seen: Arc<Seen>) {
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let acceptor = tls.map(|config| tokio_rustls::TlsAcceptor::from(Arc::new(config)));
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        socket.set_nodelay(true).unwrap();
        let (seen, acceptor) = (seen.clone(), acceptor.clone());
        tokio::task::spawn_local(async move {
            seen.connections.fetch_add(1, Ordering::SeqCst);
            match acceptor {
                None => connection(socket, seen).await,
                Some(acceptor) => {
                    if let Ok(session) = acceptor.accept(socket).await {
                        connection(session, seen).await;
                    }
                }
            }
        });
    }
}

async fn connection(socket: impl AsyncRead + AsyncWrite + Unpin + 'static, seen: Arc<Seen>) {
    let under_way = Rc::new(Cell::new(0));
    let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        seen.requests.fetch_add(1, Ordering::SeqCst);
        under_way.set(under_way.get() + 1);
        seen.peak.fetch_max(under_way.get(), Ordering::SeqCst);
        let answer = Answer {
            left: vec![token("a"), token("b") + &finish(2)],
            pause: None,
            under_way: under_way.clone(),
        };
        async move {
            let mut response = hyper::Response::new(answer);
            let found = request.uri().path() == "/v1/chat/completions" && request.uri().authority().is_some();
            if !found {
                *response.status_mut() = hyper::StatusCode::NOT_FOUND;
            }
            response.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    // A client that leaves is what some tests are about.
    let _ = hyper::server::conn::http2::Builder::new(Local).serve_connection(Adapter(socket), service).await;
}

#[derive(Clone)]
struct Local;
impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for Local {
    fn execute(&self, task: F) {
        tokio::task::spawn_local(task);
    }
}

/// Its pieces, a pause before each but the first.
struct Answer {
    left: Vec<String>,
    pause: Option<Pin<Box<tokio::time::Sleep>>>,
    under_way: Rc<Cell<u32>>,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = std::convert::Infallible;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let piece = self.left.remove(0);
        self.pause = Some(Box::pin(tokio::time::sleep(Duration::from_millis(20))));
        Poll::Ready(Some(Ok(Frame::data(piece.into()))))
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.under_way.set(self.under_way.get() - 1);
    }
}

/// A socket of the runtime, for hyper.
struct Adapter<S>(S);

impl<S: AsyncRead + Unpin> hyper::rt::Read for Adapter<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut out: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = [0; 4096];
        let room = out.remaining().min(bytes.len());
        let mut buf = ReadBuf::new(&mut bytes[..room]);
        ready!(Pin::new(&mut self.0).poll_read(cx, &mut buf))?;
        out.put_slice(buf.filled());
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> hyper::rt::Write for Adapter<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
