//! Python's random numbers, regular expressions and texts, against values that CPython 3.11.7 gave
//! (`data/python_random.json`) or that its documentation states.

#![allow(clippy::unwrap_used, clippy::float_cmp, reason = "a test may fail here; equality is meant")]

use quality::python::{self, Pattern, Random};
use serde_json::{Value, json};

fn vectors() -> Value {
    let file: Value = serde_json::from_str(include_str!("data/python_random.json")).unwrap();
    file["vectors"].clone()
}

#[test]
fn samples_as_cpython() {
    let vectors = vectors();
    let draw = |seed, n, k, times| -> Value {
        let mut random = Random::new(seed);
        (0..times).map(|_| json!(random.sample(n, k).unwrap())).collect()
    };
    assert_eq!(draw(1234, 7473, 5, 4), vectors["Random(1234).sample(range(7473),5) x4"]);
    assert_eq!(
        draw(1234, 30, 6, 3),
        vectors["Random(1234).sample(range(30),6) x3 (n+1 of a small pool: list path)"]
    );
    assert_eq!(draw(42, 40, 4, 2), vectors["Random(42).sample(range(40),4) x2"]);
    assert_eq!(Random::new(0).sample(3, 4), None);
}

#[test]
fn draws_as_cpython() {
    let vectors = vectors();
    let five = |draw: &mut dyn FnMut(&mut Random) -> Value| -> Value {
        let mut random = Random::new(42);
        (0..5).map(|_| draw(&mut random)).collect()
    };
    assert_eq!(five(&mut |r| json!(r.random())), vectors["Random(42).random() x5"]);
    assert_eq!(five(&mut |r| json!(r.bits(32) as u64)), vectors["Random(42).getrandbits(32) x5"]);
    assert_eq!(
        five(&mut |r| json!(r.randint(1_000_000, 9_999_999))),
        vectors["Random(42).randint(1000000,9999999) x5"]
    );
    let thousand: Vec<u64> = (0..1000).collect();
    assert_eq!(
        five(&mut |r| json!(r.choice(&thousand).unwrap())),
        vectors["Random(42).choice(range(1000)) x5"]
    );
    assert_eq!(json!(Random::new(42).bits(128).to_string()), vectors["Random(42).getrandbits(128)"]);
    let hex = format!("{:032x}", Random::new(42).bits(128));
    let plain = vectors["uuid4 from Random(42).getrandbits(128)"].as_str().unwrap().replace('-', "");
    // A UUID of version 4 overwrites four bits of its third group and two of its fourth.
    assert_eq!((&hex[..12], &hex[13..16], &hex[17..]), (&plain[..12], &plain[13..16], &plain[17..]));

    let mut random = Random::new(42);
    let words: Vec<String> =
        (0..3).map(|_| (0..5).map(|_| (b'A' + random.floor_of(26) as u8) as char).collect()).collect();
    assert_eq!(json!(words), vectors["Random(42).choices(ABC..Z,k=5) x3"]);
    let mut random = Random::new(0);
    let eight: Vec<usize> = (0..8).map(|_| random.floor_of(8)).collect();
    assert_eq!(json!(eight), vectors["Random(0).choices(range(8),k=8)"]);

    let mut ten: Vec<u64> = (0..10).collect();
    Random::new(42).shuffle(&mut ten);
    assert_eq!(json!(ten), vectors["Random(42).shuffle(range(10))"]);
    assert_eq!(
        json!(Random::from_text("abc").random()),
        vectors["Random('abc').random() (str seed, version 2: sha512)"]
    );
}

#[test]
fn numpy_draws_and_rounds() {
    let vectors = vectors();
    let mut random = python::NumpyRandom::new(42);
    let five: Vec<i64> = (0..5).map(|_| random.randint(10_000, 99_999)).collect();
    assert_eq!(json!(five), vectors["np.random.seed(42); randint(10000,99999) x5"]);
    let depths: Vec<i64> =
        (0..40).map(|i| python::round_half_even(f64::from(i) * (100.0 / 39.0)) as i64).collect();
    assert_eq!(json!(depths), vectors["np.round(np.linspace(0,100,40)).astype(int)"]);
    assert_eq!([0.5, 1.5, 2.5, -0.5].map(python::round_half_even), [0.0, 2.0, 2.0, 0.0]);
    assert_eq!((python::round_to(2.675, 2), python::round_to(0.125, 2)), (2.67, 0.12));
}

#[test]
fn patterns_as_re() {
    let find = |pattern: &str, text: &str| -> Vec<Vec<String>> {
        let all = Pattern::new(pattern, false).unwrap();
        all.find_all(text).unwrap().iter().map(|m| m.iter().map(ToString::to_string).collect()).collect()
    };
    assert_eq!(find("a*", "ab"), [["a"], [""], [""]]);
    assert_eq!(find("(a)|(b)", "ab"), [["a", ""], ["", "b"]]);
    assert_eq!(find(r"\.$", "5.\n"), [["."]]);
    assert!(find(r"\.\Z", "5.\n").is_empty());
    assert_eq!(find(r"(?m)^\w+$", "a\nb"), [["a"], ["b"]]);
    assert_eq!(find(r"\s+", "a\u{1c} \u{1f}b"), [["\u{1c} \u{1f}"]]);
    assert_eq!(find(r"[^\s]", "a\u{1c}"), [["a"]]);
    assert_eq!(find(r"[\S]", "a\u{1c}"), [["a"]]);
    assert_eq!(find(r"\w+", "½x\u{301}"), [["½x"]]);
    assert_eq!(find(r"[[a]+", "[a"), [["[a"]]);
    assert_eq!(find(r"[]a]", "]"), [["]"]]);
    assert_eq!(find(r"[$0-9.,&&-]+", "$1,2&-"), [["$1,2&-"]]);
    assert_eq!(find(r"{x}\'\<", "{x}'<"), [["{x}'<"]]);
    assert_eq!(find(r"a{,2}b", "aab"), [["aab"]]);
    assert_eq!(find(r"\b[A-J]\b(?!.*\b[A-J]\b)", "A or B"), [["B"]]);
    assert_eq!(find(r"(?P<c>.)(?P=c)", "abb"), [["b"]]);
    let sub = |pattern: &str, with: &str, text: &str| {
        Pattern::new(pattern, false).unwrap().sub(with, text, 0).unwrap()
    };
    assert_eq!(sub("x*", "-", "abxd"), "-a-b--d-");
    assert_eq!(sub(r"(\d)(\d)", r"\2\g<1>\n", "12"), "21\n");
    assert!(Pattern::new("(?x) a", false).is_err());
    assert!(Pattern::new("(", false).is_err());
}

#[test]
fn a_pattern_that_tries_too_much_gives_up() {
    let pattern = Pattern::new(r"(?:(?=x)x+)+(?!x)y", false).unwrap();
    assert!(pattern.find_all(&"x".repeat(60)).is_err());
}

#[test]
fn texts_as_str() {
    assert_eq!(python::strip("\u{1f}\u{a0} a\n"), "a");
    assert_eq!(python::split(" a\u{1c}b  c ").collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(python::split_runs(" a b ").collect::<Vec<_>>(), ["", "a", "b", ""]);
    assert_eq!(python::split_runs("").count(), 1);
    assert_eq!(python::split_runs("  ").count(), 2);
}

#[test]
fn values_as_python_writes_them() {
    let reprs = [1.0, 1e16, 1e15, 1e-4, 1e-5, 0.1, -2.5e-7, 58_913_902_129_751.43, 2.706_386_200_224_817e16]
        .map(python::float_repr);
    let wanted = [
        "1.0",
        "1e+16",
        "1000000000000000.0",
        "0.0001",
        "1e-05",
        "0.1",
        "-2.5e-07",
        "58913902129751.43",
        "2.706386200224817e+16",
    ];
    assert_eq!(reprs, wanted);
    let value = json!({"a": [1, 2.0, true, null], "b": "it's \"x\"\n", "c": {}, "d": []});
    assert_eq!(python::repr(&value), r#"{'a': [1, 2.0, True, None], 'b': 'it\'s "x"\n', 'c': {}, 'd': []}"#);
    assert_eq!(python::repr(&json!("it's")), "\"it's\"");
    let dumped = "{\n  \"a\": [\n    1,\n    2.0,\n    true,\n    null\n  ],\n  \"b\": \"it's \\\"x\\\"\\n\",\n  \"c\": {},\n  \"d\": []\n}";
    assert_eq!(python::json_dumps(&value, Some(2)), dumped);
    assert_eq!(python::json_dumps(&json!(["é", 1]), None), "[\"é\", 1]");
}

#[test]
fn literals_as_ast() {
    let good = [
        ("['a', \"b'c\", 'd\\n']", json!(["a", "b'c", "d\n"])),
        ("(1, -2.5e3, True, None,)", json!([1, -2500.0, true, null])),
        ("('x')", json!("x")),
        ("{'a': [1]}", json!({"a": [1]})),
        ("'a' 'b'", json!("ab")),
        ("r'\\d' '\\x41\\u00e9'", json!("\\dAé")),
        ("[]", json!([])),
        ("'''a\n'b'''", json!("a\n'b")),
    ];
    for (text, value) in good {
        assert_eq!(python::literal_eval(text).unwrap(), value, "{text}");
    }
    for bad in
        ["[1 2]", "[1", "name", "b'x'", "01", "'a", "[1]]", "{1: 2}", "1+2", "", "[,]", "{'a': 1 'b': 2}"]
    {
        assert!(python::literal_eval(bad).is_err(), "{bad}");
    }
    assert!(python::literal_eval(&"[".repeat(100_000)).is_err());
}

proptest::proptest! {
    #[test]
    fn what_repr_writes_is_read_back(text in "\\PC{0,20}|[\\x00-\\x7f]{0,20}", x in proptest::num::f64::NORMAL) {
        let value = json!([text, x, {"k": text}]);
        proptest::prop_assert_eq!(python::literal_eval(&python::repr(&value)), Ok(value));
    }

    #[test]
    fn hostile_patterns_and_literals_do_not_panic(a in "[\\[\\](){}\\\\^$.*+?|a-c\\-0-9,&smwSWbBZPx=<>:!]{0,12}", b in "\\PC{0,30}") {
        if let Ok(pattern) = Pattern::new(&a, true) {
            let _ = pattern.find_all(&b);
            let _ = pattern.sub(&a, &b, 0);
        }
        let _ = python::literal_eval(&a);
        let _ = python::literal_eval(&b);
    }
}
