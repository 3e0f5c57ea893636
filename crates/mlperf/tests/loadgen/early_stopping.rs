//! Early stopping against tables by scipy's incomplete beta, equal to LoadGen's own.

use mlperf::early::{estimate_rank, min_queries, min_under};

fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().skip(1).map(|line| line.split(',').collect())
}

fn number<T: std::str::FromStr>(cell: &str) -> T {
    cell.parse().unwrap_or_else(|_| panic!("{cell}"))
}

#[test]
fn queries_that_make_up_for_those_over_the_limit() {
    let mut count = 0;
    for row in rows(include_str!("../data/loadgen-6.0.17-early_stopping_min_passing.csv")) {
        let (p, over): (f64, u64) = (number(row[0]), number(row[1]));
        assert_eq!(min_under(over, p), number::<u64>(row[2]), "{row:?}");
        assert_eq!(min_queries(over, p), number::<u64>(row[3]), "{row:?}");
        count += 1;
    }
    assert!(count > 150, "{count}");
}

#[test]
fn estimates_of_a_percentile() {
    let mut count = 0;
    for row in rows(include_str!("../data/loadgen-6.0.17-early_stopping_estimate_rank.csv")) {
        let (p, n): (f64, u64) = (number(row[0]), number(row[1]));
        let rank = estimate_rank(n, p);
        assert_eq!(rank.unwrap_or(0), number::<u64>(row[2]), "{row:?}");
        if let Some(rank) = rank {
            assert_eq!(rank - 1, number::<u64>(row[3]), "{row:?}");
            assert_eq!(n - rank, number::<u64>(row[4]), "{row:?}");
        } else {
            assert_eq!(row[4], "insufficient");
        }
        count += 1;
    }
    assert!(count > 100, "{count}");
}

#[test]
fn verdicts_of_server() {
    let mut count = 0;
    for row in rows(include_str!("../data/loadgen-6.0.17-early_stopping_server_verdict.csv")) {
        let (p, n, over): (f64, u64, u64) = (number(row[0]), number(row[1]), number(row[2]));
        let needed = min_queries(over, p);
        assert_eq!(needed, number::<u64>(row[3]), "{row:?}");
        assert_eq!(n >= needed, row[4] == "1", "{row:?}");
        if n < needed {
            assert_eq!(needed - n, number::<u64>(row[5]), "{row:?}");
        }
        count += 1;
    }
    assert!(count > 100, "{count}");
}
