//! A radix-2 Fourier transform, for autocorrelations at many lags.

use std::f64::consts::TAU;

type Complex = (f64, f64);

/// Autocorrelation of an already centred series at every lag below its length, divided by lag 0.
pub(crate) fn autocorrelation(centred: &[f64]) -> Vec<f64> {
    let n = centred.len();
    // Zeros up to twice the length keep the ends from wrapping into each other.
    let size = (2 * n).next_power_of_two();
    let roots: Vec<Complex> = (0..size / 2)
        .map(|k| {
            let angle = -TAU * k as f64 / size as f64;
            (angle.cos(), angle.sin())
        })
        .collect();
    let mut data: Vec<Complex> = centred.iter().map(|&x| (x, 0.0)).collect();
    data.resize(size, (0.0, 0.0));
    transform(&mut data, &roots);
    for value in &mut data {
        *value = (value.0 * value.0 + value.1 * value.1, 0.0);
    }
    // The spectrum is real and even, so the forward transform inverts it up to a factor.
    transform(&mut data, &roots);
    let zero = data[0].0;
    data.iter().take(n).map(|&(re, _)| re / zero).collect()
}

/// In-place forward transform; the length is a power of two, `roots` the first half of its roots of 1.
fn transform(data: &mut [Complex], roots: &[Complex]) {
    let n = data.len();
    let mut j = 0;
    for i in 1..n {
        let mut bit = n >> 1;
        while j & bit != 0 {
            j ^= bit;
            bit >>= 1;
        }
        j |= bit;
        if i < j {
            data.swap(i, j);
        }
    }
    let mut length = 2;
    while length <= n {
        let half = length / 2;
        let stride = n / length;
        for block in data.chunks_exact_mut(length) {
            let (low, high) = block.split_at_mut(half);
            for ((a, b), &(re, im)) in low.iter_mut().zip(high).zip(roots.iter().step_by(stride)) {
                let turned = (b.0 * re - b.1 * im, b.0 * im + b.1 * re);
                *b = (a.0 - turned.0, a.1 - turned.1);
                *a = (a.0 + turned.0, a.1 + turned.1);
            }
        }
        length *= 2;
    }
}
