//! Which lane sends which request: a fixed rule, so that the union over lanes is the whole plan.

/// The lane that sends request `seq`. Open loop (`users` is `None`): in turn. Closed loop: request
/// `seq` belongs to user `seq mod users`, and users are dealt to lanes in turn.
pub fn lane_of(seq: u64, users: Option<u32>, lanes: u16) -> u16 {
    let slot = match users {
        Some(users) => seq % u64::from(users.max(1)),
        None => seq,
    };
    (slot % u64::from(lanes.max(1))) as u16
}

/// How many of the requests `0..total` belong to `lane`; the shares of all lanes add up to `total`.
pub fn share(total: u64, users: Option<u32>, lane: u16, lanes: u16) -> u64 {
    let lanes = u64::from(lanes.max(1));
    // Members of `0..n` that are `lane` modulo `lanes`.
    let of = |n: u64| n / lanes + u64::from(n % lanes > u64::from(lane));
    match users {
        None => of(total),
        Some(users) => {
            let users = u64::from(users.max(1));
            total / users * of(users) + of(total % users)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_share_counts_the_requests_of_the_lane(
            total in 0u64..500, users in proptest::option::of(1u32..40), lanes in 1u16..9,
        ) {
            let mut sum = 0;
            for lane in 0..lanes {
                let counted = (0..total).filter(|seq| lane_of(*seq, users, lanes) == lane).count() as u64;
                prop_assert_eq!(share(total, users, lane, lanes), counted);
                sum += counted;
            }
            prop_assert_eq!(sum, total);
        }
    }

    #[test]
    fn users_are_dealt_in_turn() {
        // Three users on two lanes: users 0 and 2 on lane 0, user 1 on lane 1.
        let lanes: Vec<_> = (0..6).map(|seq| lane_of(seq, Some(3), 2)).collect();
        assert_eq!(lanes, [0, 1, 0, 0, 1, 0]);
        assert_eq!((0..4).map(|seq| lane_of(seq, None, 2)).collect::<Vec<_>>(), [0, 1, 0, 1]);
    }
}
