//! Why there is nothing to measure, and what to do about it.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use spec::Nanos;

use crate::ask::AskError;
use crate::connect::{DialError, Endpoint, EndpointError, TlsSetupError};

/// Where inference servers listen by default: vLLM, llama.cpp, Ollama, SGLang.
const USUAL_PORTS: [u16; 4] = [8000, 8080, 11434, 30000];
/// A port of this machine answers at once or not at all.
const KNOCK: Duration = Duration::from_millis(50);

/// Why there is nothing to measure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The address.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// TLS.
    #[error(transparent)]
    Tls(#[from] TlsSetupError),
    /// A simulated engine without the address that it listens on.
    #[error("the simulated engine `{0}` has no address; start it and give its address")]
    NoAddress(String),
    /// A header that is none.
    #[error("`{name}` is no header that can be sent: {why}")]
    Header {
        /// Its name.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// Nothing answered.
    #[error(
        "nothing answered at {target}\n\n  tried    GET {path}, {tried}\n  got      {got}\n  expected an OpenAI-style server, or another path with --health PATH\n{}",
        hint_lines(.hints)
    )]
    Silent {
        /// The address.
        target: String,
        /// What was asked for.
        path: String,
        /// How often, for how long.
        tried: String,
        /// What came instead of an answer, the last time.
        got: String,
        /// What to do, most likely first.
        hints: Vec<String>,
    },
    /// It answered, but never well.
    #[error(
        "{target} is not ready\n\n  tried    GET {path}, {tried}\n  got      {status} {body}\n  expected a status of 2xx{}",
        advice(*.status)
    )]
    NotReady {
        /// The address.
        target: String,
        /// What was asked for.
        path: String,
        /// How often, for how long.
        tried: String,
        /// The last status.
        status: u16,
        /// Beginning of the last body.
        body: String,
    },
    /// It refuses a request of the kind that the run would send.
    #[error(
        "{target} refuses requests\n\n  tried    POST {path}, one request\n  got      {status} {body}{}",
        refused(*.status, .offers)
    )]
    Refused {
        /// The address.
        target: String,
        /// What was asked for.
        path: String,
        /// The status.
        status: u16,
        /// Beginning of the body.
        body: String,
        /// Models that it offers.
        offers: Vec<String>,
    },
    /// No model was named, and there is not exactly one.
    #[error("which model? none was named, and {target} offers {}", listed(.offers))]
    WhichModel {
        /// The address.
        target: String,
        /// What it offers.
        offers: Vec<String>,
    },
    /// Requests name one model, and a server does not have it.
    #[error(
        "{target} does not offer `{model}`, as {first} does: it offers {}\n\nhint: all targets must offer the model \
         that requests name; choose one that all have by --model NAME, or measure them apart", .offers.join(", ")
    )]
    OtherModels {
        /// The address.
        target: String,
        /// The address that offers it.
        first: String,
        /// The model.
        model: String,
        /// What it offers instead.
        offers: Vec<String>,
    },
    /// The stop flag was set before the server was known.
    #[error("stopped while getting to know the server; nothing was measured")]
    Stopped,
    /// The system refused something.
    #[error("the client could not be set up: {0}")]
    Client(String),
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "none that it would name; give one by --model NAME".to_owned(),
        names => format!("{}; choose one by --model NAME", names.join(", ")),
    }
}

fn hint_lines(hints: &[String]) -> String {
    hints.iter().map(|hint| format!("\nhint: {hint}")).collect()
}

fn advice(status: u16) -> &'static str {
    match status {
        401 | 403 => {
            "\n\nhint: the key is missing or wrong: give it by --api-key-env VARIABLE or --api-key-file FILE"
        }
        404 | 405 => "\n\nhint: if the server has no such page, name another by --health PATH",
        503 => "\n\nhint: it may still be loading: wait longer by --wait TIME",
        _ => "",
    }
}

/// What to do where the probe was refused. A 404 names the model or the path.
fn refused(status: u16, offers: &[String]) -> String {
    match status {
        401 | 403 => advice(status).to_owned(),
        _ if !offers.is_empty() => {
            format!(
                "\n\nhint: this server offers {}: name one by --model NAME; another path goes by --path PATH",
                offers.join(", ")
            )
        }
        _ => "\n\nhint: another model goes by --model NAME, another path by --path PATH".to_owned(),
    }
}

/// `once`, or `3 times in 10 s`.
pub(super) fn tried(times: u32, waited: Nanos) -> String {
    match times {
        1 => format!("once, for {}", for_people(waited)),
        times => format!("{times} times in {}", for_people(waited)),
    }
}

/// A duration as people say it: `0.4 s`, `2.5 s`, `12 s`, `3 min`.
fn for_people(time: Nanos) -> String {
    let tenths = (time.0 + 50_000_000) / 100_000_000;
    match tenths {
        0..100 if !tenths.is_multiple_of(10) => format!("{}.{} s", tenths / 10, tenths % 10),
        0..1_200 => format!("{} s", (tenths + 5) / 10),
        _ => format!("{} min", (tenths + 300) / 600),
    }
}

/// What to do where nothing answered: from the fault itself, what else listens, and how to go on
/// without a server.
pub(super) fn hints_for_silence(endpoint: &Endpoint, error: &AskError) -> Vec<String> {
    let mut hints = Vec::new();
    if let AskError::Dial(DialError::Tls(_)) = error {
        hints.push(
            "if the server's certificate is not signed by a known authority, name its root by --cacert \
             FILE, or go on unchecked by --insecure"
                .to_owned(),
        );
    }
    if let Some(port) = neighbour(endpoint, &USUAL_PORTS) {
        let host =
            endpoint.authority.strip_suffix(&format!(":{}", endpoint.port())).unwrap_or(&endpoint.host);
        hints.push(format!(
            "something listens on {host}:{port}. Did you mean\n        inferometer run http://{host}:{port} …"
        ));
    }
    if let Some(path) = &endpoint.unix {
        hints.push(format!("whether a server listens on {} is shown by `ss -xl`", path.display()));
    }
    hints.push(
        "to try without a server\n        inferometer run sim://llama-3.1-8b@h100 --rate 6 --duration 30s"
            .to_owned(),
    );
    hints
}

/// A port among `ports` that takes connections on the same loopback address. Other machines are not
/// knocked at.
fn neighbour(endpoint: &Endpoint, ports: &[u16]) -> Option<u16> {
    let knocked = |port: &&u16| {
        let mut loopback = endpoint.addresses.iter().filter(|address| address.ip().is_loopback());
        **port != endpoint.port()
            && loopback.any(|address| {
                TcpStream::connect_timeout(&SocketAddr::new(address.ip(), **port), KNOCK).is_ok()
            })
    };
    ports.iter().find(knocked).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_for_people() {
        let said = [0, 420, 960, 2_500, 3_000, 9_931, 9_960, 12_400, 119_000, 150_000, 600_000];
        let said = said.map(|ms| for_people(Nanos::from_millis(ms)));
        assert_eq!(
            said,
            ["0 s", "0.4 s", "1 s", "2.5 s", "3 s", "9.9 s", "10 s", "12 s", "119 s", "3 min", "10 min"]
        );
        assert_eq!(tried(1, Nanos::from_secs(2)), "once, for 2 s");
        assert_eq!(tried(9, Nanos::from_secs(10)), "9 times in 10 s");
    }

    #[test]
    fn a_neighbour_is_found_on_this_machine_only() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut endpoint = Endpoint::resolve("http://127.0.0.1:9").unwrap();
        assert_eq!(neighbour(&endpoint, &[9, port]), Some(port));
        // Its own port is not offered again.
        endpoint.addresses[0].set_port(port);
        assert_eq!(neighbour(&endpoint, &[port]), None);
        endpoint.addresses = vec!["192.0.2.1:9".parse().unwrap()];
        assert_eq!(neighbour(&endpoint, &[port]), None);
        let error = AskError::Dial(DialError::Tls("unknown issuer".to_owned()));
        let hints = hints_for_silence(&endpoint, &error);
        assert!(hints.len() == 2 && hints[0].contains("--cacert FILE") && hints[1].contains("sim://"));
    }
}
