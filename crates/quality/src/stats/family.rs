//! Several tests at once.

/// P-values adjusted by Holm's step-down rule (1979), in the order given: rejecting those at most α keeps
/// the chance of any false rejection at most α, however the tests depend on each other.
///
/// For PASS no adjustment is due: all tasks must pass, so the level of each is that of the whole
/// (intersection–union test, Berger 1982).
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut largest = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        largest = largest.max(p_values[index] * (p_values.len() - rank) as f64).min(1.0);
        adjusted[index] = largest;
    }
    adjusted
}
