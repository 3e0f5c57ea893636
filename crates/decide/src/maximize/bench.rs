//! The server with every probe remembered: what runs on it is told what it gave.

use spec::{Nanos, Objective, Turn};

use super::excess::excess;
use super::point::Point;
use crate::capacity::{
    Ask, CapacityAnswer, Finished, Halt, Kind, Look, Next, Over, ProbeTrust, Runner, Seen, Settings, Waited,
    again, determined,
};

/// Nothing is waited for longer where nothing else is known.
const PATIENCE: Nanos = Nanos::from_secs(300);

/// Standard errors between a probe and its limits that need no further requests.
const SURE: f64 = 3.0;

/// What is told while it goes on.
#[derive(Debug)]
pub enum Told<'a> {
    /// The load is searched at this setting of the knobs from here on.
    Setting(&'a [Turn]),
    /// The search for the limits, after each of its probes.
    Search(&'a CapacityAnswer),
    /// A probe of the throughput.
    Point(&'a Point),
}

/// How long a probe of the throughput goes on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Care {
    /// Requests at least.
    pub least: u64,
    /// Requests at most.
    pub most: u64,
    /// It ends once the throughput is known up to this relative standard error.
    pub error: f64,
}

/// A runner that keeps the throughput of each probe.
pub(super) struct Bench<'a> {
    pub settings: &'a Settings,
    pub objective: Objective,
    runner: &'a mut dyn Runner,
    /// Lent out while a search tells of its own probes.
    pub told: Option<&'a mut dyn FnMut(Told<'_>)>,
    /// Of all settings, in order.
    pub points: Vec<Point>,
    setting: Vec<Turn>,
    pub requests: u64,
    pub time: Nanos,
    /// Why nothing more comes back.
    pub halted: Option<Halt>,
    /// Unloaded end-to-end latency, s, as far as it is known.
    unloaded: Option<f64>,
    /// How far the last probe was beyond its limits.
    pub excess: Option<(f64, f64)>,
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        objective: Objective,
        runner: &'a mut dyn Runner,
        told: &'a mut dyn FnMut(Told<'_>),
    ) -> Self {
        Self {
            settings,
            objective,
            runner,
            told: Some(told),
            points: Vec::new(),
            setting: Vec::new(),
            requests: 0,
            time: Nanos::ZERO,
            halted: None,
            unloaded: None,
            excess: None,
        }
    }

    /// Sets the knobs; what was known of the unloaded server holds no more.
    pub(super) fn set(&mut self, setting: &[Turn]) -> Result<(), Halt> {
        self.setting = setting.to_vec();
        self.unloaded = None;
        let turned = self.runner.turn(setting);
        if let Err(halt) = &turned {
            self.halted = Some(halt.clone());
        }
        turned
    }

    pub(super) fn setting(&self) -> &[Turn] {
        &self.setting
    }

    pub(super) fn tell(&mut self, what: Told<'_>) {
        if let Some(told) = &mut self.told {
            told(what);
        }
    }

    /// A search for the limits at this setting, with seeds of its own and the time that is left.
    pub(super) fn search_settings(&self) -> Settings {
        Settings { seed: self.seed(), budget: self.left(), ..self.settings.clone() }
    }

    /// Of the next probe: fresh for each place in the order and each setting.
    fn seed(&self) -> u64 {
        let of = |seed: u64, part: u64| spec::seed::mix(seed ^ spec::seed::mix(part + 1));
        let place = of(self.settings.seed, self.points.len() as u64);
        self.setting.iter().fold(place, |seed, turn| of(of(seed, turn.dial as u64), u64::from(turn.value)))
    }

    /// Time left in the budget.
    fn left(&self) -> Option<Nanos> {
        self.settings.budget.map(|budget| budget.saturating_since(self.time))
    }

    pub(super) fn out_of_time(&self) -> bool {
        self.left().is_some_and(|left| left == Nanos::ZERO)
    }

    /// A load of this size as it can be offered: within what is allowed, whole where it has to be.
    pub(super) fn offered(&self, load: f64) -> f64 {
        let load = self.settings.max_load.map_or(load, |most| load.min(most));
        if self.settings.over.is_whole() { load.round().max(1.0) } else { load }
    }

    /// The next probe at a load: fresh prompts, a fresh timetable.
    pub(super) fn ask(&self, kind: Kind, (over, load): (Over, f64), (requests, time): (u64, Nanos)) -> Ask {
        Ask {
            number: self.points.len() as u32,
            kind,
            load: over.load(load, self.unloaded),
            seed: self.seed(),
            max_requests: requests,
            max_time: self.left().map_or(time, |left| time.min(left)),
        }
    }

    /// A probe of the throughput at a load.
    pub(super) fn throughput(&mut self, kind: Kind, load: f64, care: Care) -> Result<Point, Halt> {
        let load = self.offered(load);
        self.run(kind, self.settings.over, load, care)
    }

    /// A closed loop without pauses, whatever is searched.
    pub(super) fn closed(&mut self, kind: Kind, users: u32, care: Care) -> Result<Point, Halt> {
        self.run(kind, Over::Concurrency, f64::from(users), care)
    }

    /// A probe that the client spoilt says nothing of the server: it is made once more.
    fn run(&mut self, kind: Kind, over: Over, load: f64, care: Care) -> Result<Point, Halt> {
        let point = self.once(kind, over, load, care)?;
        if point.client_limited.is_none() || self.out_of_time() {
            return Ok(point);
        }
        self.once(kind, over, load, care)
    }

    fn once(&mut self, kind: Kind, over: Over, load: f64, care: Care) -> Result<Point, Halt> {
        let horizon = self.unloaded.map_or(PATIENCE, |s| Nanos::from_secs_f64((20.0 * s).clamp(2.0, 300.0)));
        let (settings, objective) = (self.settings, self.objective);
        let think = match over {
            Over::Users { think } => think,
            _ => Nanos::ZERO,
        };
        let (least, most) = match over {
            Over::Rate { .. } => {
                let least = (load * settings.least_time.as_secs_f64()).ceil() as u64;
                (care.least, care.most.max(least))
            }
            // All begin at once: the first round does not count.
            _ => (care.least.max(4 * load as u64), care.most.max(8 * load as u64)),
        };
        let max_time = match over {
            Over::Rate { .. } => Nanos::from_secs_f64((2.0 * most as f64 / load).min(3e8)) + horizon,
            _ => Nanos::from_secs(86_400),
        };
        let ask = self.ask(kind, (over, load), (most + 4 * load as u64, max_time));
        let mut want = least.min(most);
        let asked = ask.clone();
        // Of a survey it also counts whether the limits hold, so a request is known with its verdict.
        let criteria = &settings.criteria[..if kind == Kind::Survey { settings.criteria.len() } else { 0 }];
        let horizon = horizon + think;
        let mut look = |look: Look<'_>| loop {
            let again = |requests: &[Seen]| match criteria.is_empty() {
                true => Next::Again { requests: want, horizon },
                false => again(criteria, requests, want as usize),
            };
            let Some(first) = look.requests.get(..want as usize) else { return again(look.requests) };
            let ended = |seen: &Seen| {
                seen.end.is_some_and(|end| end <= look.now) || seen.intended + horizon <= look.now
            };
            let known = match criteria.is_empty() {
                true => first.iter().all(ended),
                false => determined(criteria, first, look.now) >= first.len(),
            };
            if !known {
                return again(first);
            }
            let so_far = Finished {
                requests: first.to_vec(),
                now: look.now,
                trust: ProbeTrust::Trusted,
                waited: Waited::default(),
            };
            let point = Point::new(0, &[], (settings.over, &asked), &so_far, (objective, &settings.criteria));
            let sure = criteria.is_empty()
                || excess(criteria, settings.over, &asked, &so_far)
                    .is_some_and(|(value, variance)| value.abs() > SURE * variance.sqrt());
            let precise = point.error.is_some_and(|error| error <= care.error) && sure;
            if want >= most || look.now >= settings.least_time && precise {
                return Next::Stop;
            }
            want = (want + want / 2).min(most);
        };
        let (finished, point) = self.made(&ask, &mut look)?;
        if load < 1.5 && over.is_whole() {
            let ended = |s: &Seen| s.end.filter(|_| s.ok).map(|e| e.saturating_since(s.intended));
            let times: Vec<f64> =
                finished.requests.iter().filter_map(ended).map(Nanos::as_secs_f64).collect();
            self.unloaded = measure::interval::mean(&times).or(self.unloaded);
        }
        self.tell(Told::Point(&point));
        Ok(point)
    }

    /// A probe, with its throughput.
    pub(super) fn made(
        &mut self,
        ask: &Ask,
        look: &mut dyn FnMut(Look<'_>) -> Next,
    ) -> Result<(Finished, Point), Halt> {
        let finished = match self.runner.probe(ask, look) {
            Ok(finished) => finished,
            Err(halt) => {
                self.halted = Some(halt.clone());
                return Err(halt);
            }
        };
        self.requests += finished.requests.len() as u64;
        self.time += finished.now;
        let judged = (self.objective, &self.settings.criteria[..]);
        let number = self.points.len() as u32;
        let point = Point::new(number, &self.setting, (self.settings.over, ask), &finished, judged);
        self.excess = excess(&self.settings.criteria, self.settings.over, ask, &finished);
        self.points.push(point.clone());
        Ok((finished, point))
    }
}

impl Runner for Bench<'_> {
    fn probe(&mut self, ask: &Ask, look: &mut dyn FnMut(Look<'_>) -> Next) -> Result<Finished, Halt> {
        Ok(self.made(ask, look)?.0)
    }
}
