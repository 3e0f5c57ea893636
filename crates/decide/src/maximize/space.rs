//! The loads and knobs of a survey as points of a cube.

use spec::{Knob, Turn, Values};

/// Bases of the sequence: as many coordinates as there are parameters of a fit at most.
const BASES: [u32; 8] = [2, 3, 5, 7, 11, 13, 17, 19];

/// Point `k` of Halton's sequence (1960) in [0, 1): any first few of them fill the cube evenly.
pub(super) fn halton(k: u32, dimensions: usize) -> Vec<f64> {
    let radical = |base: u32| {
        let (mut left, mut digit, mut value) = (k, 1.0 / f64::from(base), 0.0);
        while left > 0 {
            value += f64::from(left % base) * digit;
            left /= base;
            digit /= f64::from(base);
        }
        value
    };
    BASES.iter().cycle().take(dimensions).map(|base| radical(*base)).collect()
}

/// The same, moved by a seed (Cranley and Patterson 1976).
pub(super) fn spread(k: u32, dimensions: usize, seed: u64) -> Vec<f64> {
    let shift = |i: usize| spec::seed::mix(seed ^ spec::seed::mix(i as u64 + 1)) as f64 / u64::MAX as f64;
    halton(k + 1, dimensions).iter().enumerate().map(|(i, x)| (x + shift(i)).fract()).collect()
}

/// All settings, where the knobs have few.
pub(super) fn all(knobs: &[Knob], most: usize) -> Option<Vec<Vec<Turn>>> {
    let mut settings = vec![Vec::new()];
    for knob in knobs {
        let Values::List(list) = &knob.values else { return None };
        if settings.len() * list.len() > most {
            return None;
        }
        let with = |setting: &Vec<Turn>, value: &u32| {
            let turn = Turn { dial: knob.dial, value: *value };
            setting.iter().copied().chain([turn]).collect::<Vec<_>>()
        };
        settings = settings.iter().flat_map(|s| list.iter().map(move |v| with(s, v))).collect();
    }
    Some(settings)
}

/// A cube: the first coordinate is the load, as a share of what a setting can take; the others are the
/// knobs, each in the logarithm of its value.
pub(super) struct Space<'a> {
    knobs: &'a [Knob],
    /// ln of the largest load that is worth trying at each corner of the knobs; bit `i` of the position:
    /// knob `i` at its upper end.
    corners: Vec<f64>,
    /// By how much that of the middle of all knobs exceeds what lies between the corners, in ln.
    middle: f64,
    /// ln of the shares of it that are tried, from and to.
    shares: (f64, f64),
}

/// Where knob values stand in [0, 1].
fn place(values: &Values, value: u32) -> f64 {
    let (low, high) = values.ends();
    ((f64::from(value) / f64::from(low)).ln() / (f64::from(high) / f64::from(low)).ln()).clamp(0.0, 1.0)
}

/// A knob at the value nearest to a place.
fn turn(knob: &Knob, place: f64) -> Turn {
    let (low, high) = knob.values.ends();
    let exact = f64::from(low) * (f64::from(high) / f64::from(low)).powf(place);
    let distance = |value: &u32| (f64::from(*value) / exact).ln().abs();
    let value = match &knob.values {
        Values::Range { low, high } => (exact.round() as u32).clamp(*low, *high),
        Values::List(list) => {
            list.iter().copied().min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(low)
        }
    };
    Turn { dial: knob.dial, value }
}

/// 0 at the edges, 1 in the middle.
fn tent(places: &[f64]) -> f64 {
    places.iter().map(|t| 4.0 * t * (1.0 - t)).product()
}

impl<'a> Space<'a> {
    /// The corners of the knobs and their middle, in the order in which [`Space::new`] wants their loads.
    pub(super) fn anchors(knobs: &[Knob]) -> Vec<Vec<Turn>> {
        let at = |place: &dyn Fn(usize) -> f64| -> Vec<Turn> {
            knobs.iter().enumerate().map(|(i, knob)| turn(knob, place(i))).collect()
        };
        let corners =
            (0..1_usize << knobs.len()).map(|bits| at(&|i| f64::from(u8::from(bits >> i & 1 == 1))));
        corners.chain([at(&|_| 0.5)]).collect()
    }

    /// `largest`: the largest load worth trying at each anchor, positive. `shares`: of it, from and to.
    pub(super) fn new(knobs: &'a [Knob], largest: &[f64], shares: (f64, f64)) -> Self {
        let mut corners: Vec<f64> = largest.iter().map(|load| load.max(f64::MIN_POSITIVE).ln()).collect();
        let of_middle = corners.pop().unwrap_or_default();
        let mut space = Self { knobs, corners, middle: 0.0, shares: (shares.0.ln(), shares.1.ln()) };
        // A knob of few values does not stand exactly in the middle.
        let places = space.places(&Self::anchors(knobs).pop().unwrap_or_default());
        let tent = tent(&places);
        space.middle = if tent > 0.0 { (of_middle - space.largest(&places)) / tent } else { 0.0 };
        space
    }

    pub(super) fn dimensions(&self) -> usize {
        self.knobs.len() + 1
    }

    /// ln of the largest load at a place of the knobs: between the corners a plane in each of them, with
    /// a hill in the middle.
    fn largest(&self, places: &[f64]) -> f64 {
        let weight = |bits: usize| -> f64 {
            places.iter().enumerate().map(|(i, t)| if bits >> i & 1 == 1 { *t } else { 1.0 - t }).product()
        };
        let plane: f64 = self.corners.iter().enumerate().map(|(bits, ln)| weight(bits) * ln).sum();
        plane + self.middle * tent(places)
    }

    /// The setting and the load of a point of the cube; knobs stand at the nearest of their values.
    pub(super) fn decode(&self, x: &[f64]) -> (Vec<Turn>, f64) {
        let setting: Vec<Turn> = self.knobs.iter().zip(&x[1..]).map(|(knob, x)| turn(knob, *x)).collect();
        let share = self.shares.0 + x[0] * (self.shares.1 - self.shares.0);
        let load = (self.largest(&self.places(&setting)) + share).exp();
        (setting, load)
    }

    /// The point of the cube for a setting and a load.
    pub(super) fn encode(&self, setting: &[Turn], load: f64) -> Vec<f64> {
        let places = self.places(setting);
        let share = load.ln() - self.largest(&places);
        let first = (share - self.shares.0) / (self.shares.1 - self.shares.0);
        std::iter::once(first).chain(places).collect()
    }

    fn places(&self, setting: &[Turn]) -> Vec<f64> {
        self.knobs.iter().zip(setting).map(|(knob, turn)| place(&knob.values, turn.value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knobs() -> Vec<Knob> {
        vec!["isl=100..10000".parse().unwrap(), "osl=64,128,512".parse().unwrap()]
    }

    #[test]
    fn the_sequence_begins_as_published() {
        let first: Vec<f64> = (1..5).map(|k| halton(k, 2)[0]).collect();
        assert_eq!(first, [0.5, 0.25, 0.75, 0.125]);
        assert!((halton(5, 2)[1] - (2.0 / 3.0 + 1.0 / 9.0)).abs() < 1e-12);
        assert!((0..50).flat_map(|k| spread(k, 3, 7)).all(|x| (0.0..1.0).contains(&x)));
    }

    #[test]
    fn a_point_is_a_load_and_a_setting_and_back() {
        let knobs = knobs();
        // 8 requests/s at short prompts, 2 at long ones, whatever the answers.
        let space = Space::new(&knobs, &[8.0, 2.0, 8.0, 2.0, 4.0], (0.1, 1.0));
        let (setting, load) = space.decode(&[1.0, 0.5, 0.4]);
        assert_eq!(setting.iter().map(|t| t.value).collect::<Vec<_>>(), [1000, 128]);
        assert!((load - 4.0).abs() < 1e-9, "{load}");
        let x = space.encode(&setting, load);
        assert!((x[0] - 1.0).abs() < 1e-9 && (x[1] - 0.5).abs() < 1e-9 && (x[2] - 1.0 / 3.0).abs() < 1e-9);
        assert!((space.decode(&[0.0, 1.0, 0.0]).1 - 0.2).abs() < 1e-9);
    }

    #[test]
    fn settings_are_listed_where_they_are_few() {
        let list: Vec<Knob> = vec!["osl=64,128,512".parse().unwrap()];
        assert_eq!(all(&list, 3).map(|s| s.len()), Some(3));
        assert_eq!(all(&list, 2), None);
        assert_eq!(all(&knobs(), 100), None);
        assert_eq!(all(&[], 3), Some(vec![Vec::new()]));
        assert_eq!(Space::anchors(&list).len(), 3);
    }

    /// Twice as much in the middle as the corners suggest.
    #[test]
    fn the_middle_bends_what_lies_between_the_corners() {
        let knobs: Vec<Knob> = vec!["osl=16..1024".parse().unwrap()];
        let space = Space::new(&knobs, &[64.0, 1.0, 16.0], (0.1, 1.0));
        for (place, largest) in [(0.0, 64.0), (0.5, 16.0), (1.0, 1.0)] {
            let load = space.decode(&[1.0, place]).1;
            assert!((load / largest - 1.0).abs() < 1e-9, "{place}: {load}");
        }
    }
}
