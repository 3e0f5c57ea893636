//! The knee, crossings and the front: curves whose truth is known.
#![allow(missing_docs, clippy::unwrap_used)]

use decide::sweep::*;
use proptest::prelude::*;
use spec::seed::mix;

/// Normal noise that every platform repeats.
struct Noise(u64);

impl Noise {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        (mix(self.0) >> 11) as f64 / (1_u64 << 53) as f64
    }
    fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.unit(), self.unit());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

fn rungs(loads: &[f64], throughput: impl Fn(f64) -> f64) -> Vec<Rung> {
    loads.iter().map(|&load| Rung { load, throughput: throughput(load), relative_error: 0.01 }).collect()
}

/// In proportion up to the knee, then flat.
fn broken(knee: f64) -> impl Fn(f64) -> f64 {
    move |load| 0.5 * load.min(knee)
}

const POWERS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

#[test]
fn an_exact_break_is_found_where_it_is() {
    for at in [4.0, 11.0, 32.0, 40.0, 100.0] {
        let found = knee(&rungs(&POWERS, broken(at)));
        assert_eq!(found.state, KneeState::Found, "{at}: {found:?}");
        let knee = found.at.unwrap();
        assert!((knee.load / at - 1.0).abs() < 0.002, "{at}: {knee:?}");
        assert!(knee.low <= at && at <= knee.high && knee.high / knee.low < 1.05, "{at}: {knee:?}");
        assert!((knee.throughput / (0.5 * at) - 1.0).abs() < 0.002, "{knee:?}");
        let fit = found.fit.unwrap();
        assert!((fit.head - 1.0).abs() < 1e-3 && fit.tail.abs() < 1e-3, "{fit:?}");
        assert!(fit.evidence > 6.0);
        let (load, peak) = found.peak.unwrap();
        assert!(load >= at.min(256.0) && (peak - 0.5 * at).abs() < 1e-9);
    }
}

#[test]
fn the_order_of_loads_does_not_matter() {
    let mut list = rungs(&POWERS, broken(20.0));
    let found = knee(&list);
    list.reverse();
    list.swap(1, 5);
    assert_eq!(knee(&list), found);
}

/// Noise on few and many loads, many seeds: how often the 95 % interval holds the truth.
#[test]
fn under_noise_the_interval_holds_the_knee() {
    const SEEDS: u64 = 1000;
    let grid =
        |n: u32, to: f64| -> Vec<f64> { (0..n).map(|k| to.powf(f64::from(k) / f64::from(n - 1))).collect() };
    for (loads, spread) in [
        (POWERS.to_vec(), 0.01),
        (POWERS.to_vec(), 0.03),
        (grid(7, 64.0), 0.03),
        (grid(12, 256.0), 0.02),
        (grid(8, 40.0), 0.03),
    ] {
        let (mut found, mut held, mut widths) = (0_u32, 0, Vec::new());
        for seed in 0..SEEDS {
            let mut noise = Noise(seed);
            let n = loads.len();
            let truth = loads[2] * (loads[n - 3] / loads[2]).powf(noise.unit());
            let list: Vec<Rung> = rungs(&loads, broken(truth))
                .into_iter()
                .map(|rung| Rung {
                    throughput: rung.throughput * (spread * noise.normal()).exp(),
                    relative_error: spread,
                    ..rung
                })
                .collect();
            if let Some(at) = knee(&list).at {
                found += 1;
                held += u32::from(at.low <= truth && truth <= at.high);
                widths.push(at.high / at.low - 1.0);
            }
        }
        let what = format!("{} loads, noise {spread}: {held} of {found}", loads.len());
        assert!(u64::from(found) > SEEDS * 95 / 100, "{what}");
        // 95 % less one and a half standard errors; the seeds are fixed.
        assert!(f64::from(held) / f64::from(found) > 0.94, "{what}");
        widths.sort_by(f64::total_cmp);
        assert!(widths[widths.len() / 2] < 0.35, "{what}, median width {}", widths[widths.len() / 2]);
    }
}

/// A curve that bends slowly has its break where a person would draw it, within a factor of two.
#[test]
fn a_smooth_bend_is_found_near_its_corner() {
    let smooth = |load: f64| 20.0 * load / (40.0_f64.powi(3) + load.powi(3)).cbrt();
    let found = knee(&rungs(&POWERS, smooth));
    assert_eq!(found.state, KneeState::Found, "{found:?}");
    let at = found.at.unwrap().load;
    assert!((20.0..80.0).contains(&at), "{at}");
}

#[test]
fn what_has_no_knee_has_none() {
    // It goes on growing.
    let found = knee(&rungs(&POWERS, |load| load.powf(0.9)));
    assert_eq!((found.state, found.at), (KneeState::NotReached, None), "{found:?}");
    // Slower from a point on, but not flat.
    let found = knee(&rungs(&POWERS, |load| if load < 16.0 { load } else { 16.0 * (load / 16.0).powf(0.5) }));
    assert_eq!(found.state, KneeState::NotReached, "{found:?}");
    // Flat from the beginning.
    let found = knee(&rungs(&POWERS, |_| 7.0));
    assert_eq!(found.state, KneeState::None);
    assert!(found.reason.unwrap().contains("flat from the smallest load"));
    // The last load alone is flat: two points on each side are needed.
    let found = knee(&rungs(&POWERS[..5], broken(9.0)));
    assert_ne!(found.state, KneeState::Found, "{found:?}");
    let found = knee(&rungs(&POWERS, broken(1.5)));
    assert_ne!(found.state, KneeState::Found, "{found:?}");
    // Never in proportion.
    let found = knee(&rungs(&POWERS, |load| load.min(16.0).powf(0.5)));
    assert_eq!(found.state, KneeState::None);
    assert!(found.reason.clone().unwrap().contains("to the power 0.50"), "{found:?}");
}

#[test]
fn a_curve_that_falls_collapses() {
    let falling = |load: f64| if load <= 64.0 { load.min(16.0) } else { 16.0 * 64.0 / load };
    let found = knee(&rungs(&POWERS, falling));
    assert_eq!((found.state, found.at), (KneeState::Collapse, None));
    assert!((found.peak.unwrap().1 - 16.0).abs() < 1e-9);
    // A fall within the noise is none.
    let mut list = rungs(&POWERS, broken(16.0));
    for rung in &mut list {
        rung.relative_error = 0.15;
    }
    list[8].throughput *= 0.85;
    assert_ne!(knee(&list).state, KneeState::Collapse);
}

#[test]
fn too_few_loads_are_told() {
    for n in 0..FEWEST {
        let found = knee(&rungs(&POWERS[..n], broken(2.0)));
        assert_eq!((found.state, found.at, found.fit), (KneeState::None, None, None));
        assert!(found.reason.is_some());
        assert_eq!(found.peak.is_some(), n > 0);
    }
}

#[test]
fn a_limit_is_crossed_between_two_loads_that_were_measured() {
    let (yes, no, open) = (Some(true), Some(false), None);
    let of = |met: &[Option<bool>]| {
        let loads: Vec<_> = (1..).map(f64::from).zip(met.iter().copied()).collect();
        crossing(&loads)
    };
    for (met, state, holds, missed, between) in [
        (&[yes, yes, no, no][..], CrossingState::Crossed, Some(2.0), Some(3.0), &[][..]),
        (&[yes, open, no], CrossingState::Crossed, Some(1.0), Some(3.0), &[2.0]),
        // What is unknown below a load that holds moves no bound.
        (&[open, yes, no], CrossingState::Crossed, Some(2.0), Some(3.0), &[]),
        (&[yes, yes], CrossingState::Holds, Some(2.0), None, &[]),
        (&[open, yes], CrossingState::Holds, Some(2.0), None, &[]),
        (&[no, no], CrossingState::Missed, None, Some(1.0), &[]),
        (&[no, open], CrossingState::Missed, None, Some(1.0), &[]),
        (&[open, no], CrossingState::Open, None, Some(2.0), &[1.0]),
        (&[yes, open], CrossingState::Open, Some(1.0), None, &[2.0]),
        (&[open, open], CrossingState::Open, None, None, &[1.0, 2.0]),
        (&[yes, no, yes], CrossingState::NotMonotone, Some(3.0), Some(2.0), &[]),
        (&[], CrossingState::Open, None, None, &[]),
    ] {
        let found = of(met);
        assert_eq!(found.state, state, "{met:?}");
        assert_eq!((found.holds_up_to, found.missed_from), (holds, missed), "{met:?}");
        assert_eq!(found.open, between, "{met:?}");
    }
}

/// By the definition: nothing else gives at least as much of both and more of one.
fn brute_force(trades: &[Trade]) -> Vec<f64> {
    let beats = |a: &Trade, b: &Trade| {
        a.per_user >= b.per_user
            && a.together >= b.together
            && (a.per_user > b.per_user || a.together > b.together)
    };
    let mut on: Vec<f64> =
        trades.iter().filter(|b| !trades.iter().any(|a| beats(a, b))).map(|t| t.load).collect();
    on.sort_by(f64::total_cmp);
    on
}

#[test]
fn the_front_of_a_sweep_by_hand() {
    let of = |load, per_user, together| Trade { load, per_user, together };
    let trades = [
        of(1.0, 100.0, 100.0),
        of(2.0, 90.0, 180.0),
        of(4.0, 60.0, 170.0),
        of(8.0, 50.0, 400.0),
        of(9.0, 50.0, 390.0),
    ];
    let loads: Vec<f64> = front(&trades).iter().map(|t| t.load).collect();
    assert_eq!(loads, [8.0, 2.0, 1.0], "by ascending speed of a user");
}

proptest! {
    #[test]
    fn the_front_is_that_of_brute_force(list in prop::collection::vec((0_u8..12, 0_u8..12), 0..25)) {
        let trades: Vec<Trade> = list
            .iter()
            .enumerate()
            .map(|(i, (u, t))| Trade { load: i as f64, per_user: f64::from(*u), together: f64::from(*t) })
            .collect();
        let found = front(&trades);
        prop_assert!(found.windows(2).all(|pair| pair[0].per_user <= pair[1].per_user));
        let mut loads: Vec<f64> = found.iter().map(|t| t.load).collect();
        loads.sort_by(f64::total_cmp);
        prop_assert_eq!(loads, brute_force(&trades));
    }

    /// Whatever is measured, the answer is one: no panic, no number that is none.
    #[test]
    fn any_curve_has_an_answer(list in prop::collection::btree_map(1_u32..2000, (0.001_f64..1e4, 0.0_f64..1.0), 0..20)) {
        let rungs: Vec<Rung> = list
            .into_iter()
            .map(|(load, (throughput, relative_error))| Rung { load: f64::from(load), throughput, relative_error })
            .collect();
        let found = knee(&rungs);
        if let Some(at) = found.at {
            prop_assert!(at.low <= at.load && at.load <= at.high && at.throughput.is_finite(), "{:?}", at);
        }
        if let Some(fit) = found.fit {
            prop_assert!([fit.head, fit.tail, fit.tail_low, fit.tail_high, fit.evidence].iter().all(|x| x.is_finite()), "{:?}", fit);
        }
        prop_assert_eq!(found.state == KneeState::None, found.reason.is_some());
    }
}
