//! This client as it runs in a measurement, journal and all, and the processor time that it takes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;

use clock::cpu::process_cpu;
use record::{Entry, Environment, Header, Recorder, Request, Scrubber};
use spec::{Connections, Extent, Nanos, Spec};
use wire::{Live, Output};

use crate::rig;
use crate::server::Streams;

/// Processor time of a run.
#[derive(Clone, Copy)]
pub struct Cost {
    /// Of the thread that sends and hears, from the record.
    pub lane: Nanos,
    /// Of the whole process from the run's origin to the end of its journal: lane, pacer, preparation, sampler, relay,
    /// journal. What comes before (start, connections) is not in it.
    pub whole: Nanos,
}

pub fn streams(address: SocketAddr, streams: Streams) -> Cost {
    let count = streams.count as u32;
    let spec = spec(address, count, u64::from(count));
    run(&spec, |row| row.state.is_ok() && row.chunks.len() == streams.events as usize)
}

pub fn plain(address: SocketAddr, connections: usize, requests: usize) -> Cost {
    let mut spec = spec(address, connections as u32, requests as u64);
    spec.api.stream = false;
    run(&spec, |row| row.state.is_ok())
}

fn spec(address: SocketAddr, count: u32, requests: u64) -> Spec {
    let mut spec = rig::spec(&format!("http://{address}"), rig::closed(count), Extent::Requests(requests));
    spec.client.lanes = 1;
    spec.client.connections = Connections::Prewarmed(count);
    spec
}

fn run(spec: &Spec, is_right: impl Fn(&Request) -> bool + Send + Sync) -> Cost {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.jsonl.zst");
    let header = Header {
        schema_version: record::SCHEMA_VERSION,
        spec: spec.clone(),
        environment: Environment::default(),
    };
    let (sink, outputs) = channel();
    std::thread::scope(|scope| {
        // As the program's own relay does.
        let (path, header, is_right) = (&path, &header, &is_right);
        let relay = scope.spawn(move || {
            let (mut recorder, mut before, mut lane) = (None, Nanos::ZERO, Nanos::ZERO);
            for output in wire::outputs(&outputs) {
                let entry = match output {
                    Output::Began { .. } => {
                        recorder = Some(Recorder::spawn(path, header, Scrubber::default()).unwrap());
                        before = process_cpu().unwrap();
                        continue;
                    }
                    Output::Heard { request, .. } => {
                        assert!(is_right(&request), "{:?}", request.state);
                        Entry::Request(request)
                    }
                    Output::Sample(entry) => entry,
                    Output::Ended => break,
                };
                if let Entry::Lane(sample) = &entry {
                    lane += sample.busy;
                }
                recorder.as_ref().unwrap().sender().send(entry).unwrap();
            }
            (recorder.unwrap(), before, lane)
        });
        let footer = rig::drive(spec, Arc::default(), sink, Arc::new(Live::new())).unwrap();
        let (recorder, before, lane) = relay.join().unwrap();
        assert!(recorder.finish(footer).error.is_none());
        Cost { lane, whole: process_cpu().unwrap().saturating_since(before) }
    })
}
