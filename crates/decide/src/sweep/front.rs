//! The trade between what all users get together and what each of them gets: the Pareto front.

/// One load in the plane of the trade; more is better in both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trade {
    /// The load.
    pub load: f64,
    /// Output speed of one user, tokens per second.
    pub per_user: f64,
    /// Output tokens per second of all, for each accelerator where their number is known.
    pub together: f64,
}

/// The loads on the front, by ascending speed of a user: no other load gives at least as much of both
/// and more of one.
pub fn front(trades: &[Trade]) -> Vec<Trade> {
    let mut sorted = trades.to_vec();
    // From the fastest for a user on; of equal ones the one that gives all the most comes first.
    sorted.sort_by(|a, b| b.per_user.total_cmp(&a.per_user).then(b.together.total_cmp(&a.together)));
    let mut front: Vec<Trade> = Vec::new();
    for trade in sorted {
        let beaten = front.last().is_some_and(|best| {
            // Two loads that give exactly the same are both on it.
            let same = best.per_user.total_cmp(&trade.per_user).is_eq()
                && best.together.total_cmp(&trade.together).is_eq();
            best.together >= trade.together && !same
        });
        if !beaten {
            front.push(trade);
        }
    }
    front.reverse();
    front
}
