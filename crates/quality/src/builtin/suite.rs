//! Named sets of built-in tasks, as data.

use super::{Arithmetic, BuiltinError, Format, Niah, NiahGrid, Perplexity, Placement, Ruler, Setup, Shape};
use crate::benchmark::Benchmark;
use serde::Serialize;

/// One task of a suite.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "task", rename_all = "snake_case")]
pub enum Part {
    /// Sums.
    Arithmetic {
        /// How many.
        samples: usize,
    },
    /// Answers in a wanted form.
    Format {
        /// How many.
        samples: usize,
    },
    /// The bundled text; for servers that can score.
    Perplexity {
        /// Pieces of about 2,000 bytes.
        samples: usize,
    },
    /// A grid of needles.
    Niah {
        /// In tokens.
        lengths: &'static [usize],
        /// In percent.
        depths: &'static [f64],
    },
    /// Shapes of RULER.
    Ruler {
        /// Which.
        shapes: &'static [Shape],
        /// In tokens.
        lengths: &'static [usize],
        /// Questions of each shape and length.
        samples: usize,
    },
}

/// A named set of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Suite {
    /// How a user asks for it.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// In order.
    pub parts: &'static [Part],
}

/// The suites that come with the tool.
pub const SUITES: [Suite; 3] = [
    Suite {
        name: "smoke",
        about: "about a minute on a small model: is anything badly broken?",
        parts: &[
            Part::Arithmetic { samples: 24 },
            Part::Format { samples: 15 },
            Part::Perplexity { samples: 1 },
            Part::Niah { lengths: &[1024], depths: &[0.0, 50.0, 100.0] },
        ],
    },
    Suite {
        name: "standard",
        about: "reckoning, obedience, perplexity and eleven long-context shapes up to 8,192 tokens",
        parts: &[
            Part::Arithmetic { samples: 200 },
            Part::Format { samples: 100 },
            Part::Perplexity { samples: 16 },
            Part::Niah { lengths: &[2048, 4096, 8192], depths: &[0.0, 25.0, 50.0, 75.0, 100.0] },
            Part::Ruler { shapes: &Shape::SYNTHETIC, lengths: &[4096, 8192], samples: 10 },
        ],
    },
    Suite {
        name: "long",
        about: "what context really works: eleven shapes and a grid of needles from 4,096 to 131,072 tokens",
        parts: &[
            Part::Niah {
                lengths: &[4096, 8192, 16_384, 32_768, 65_536, 131_072],
                depths: &[0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0],
            },
            Part::Ruler {
                shapes: &Shape::SYNTHETIC,
                lengths: &[4096, 8192, 16_384, 32_768, 65_536, 131_072],
                samples: 20,
            },
        ],
    },
];

/// The tasks of a suite.
pub struct Built {
    /// Ready to be asked.
    pub tasks: Vec<Box<dyn Benchmark>>,
    /// What was not made, and why: lengths above the server's context, scoring on a server that cannot.
    pub left_out: Vec<String>,
}

impl Suite {
    /// By its name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        SUITES.iter().find(|suite| suite.name == name)
    }

    /// Makes the tasks. Lengths above `context` tokens, where that is known, are left out, and perplexity if the
    /// server cannot score.
    pub fn build(
        &self,
        setup: Setup<'_>,
        context: Option<usize>,
        can_score: bool,
    ) -> Result<Built, BuiltinError> {
        let mut built = Built { tasks: Vec::new(), left_out: Vec::new() };
        for part in self.parts {
            match *part {
                Part::Arithmetic { samples } => built.tasks.push(Box::new(Arithmetic::new(samples, setup)?)),
                Part::Format { samples } => built.tasks.push(Box::new(Format::new(samples, setup)?)),
                Part::Perplexity { samples } if can_score => {
                    built.tasks.push(Box::new(Perplexity::new(samples)?));
                }
                Part::Perplexity { .. } => {
                    built
                        .left_out
                        .push("perplexity: the server gives no log-probabilities of a text".to_owned());
                }
                Part::Niah { lengths, depths } => {
                    let lengths = fitting("niah", lengths, context, &mut built.left_out);
                    let grid = NiahGrid { lengths, depths: depths.to_vec() };
                    built.tasks.push(Box::new(Niah::new(&grid, None, Placement::SentenceEnd, setup)?));
                }
                Part::Ruler { shapes, lengths, samples } => {
                    for length in fitting("ruler", lengths, context, &mut built.left_out) {
                        for shape in shapes {
                            built.tasks.push(Box::new(Ruler::synthetic(*shape, length, samples, setup)?));
                        }
                    }
                }
            }
        }
        built.tasks.retain(|task| !task.questions().is_empty());
        Ok(built)
    }
}

fn fitting(task: &str, lengths: &[usize], context: Option<usize>, left_out: &mut Vec<String>) -> Vec<usize> {
    let (fit, too_long): (Vec<usize>, Vec<usize>) =
        lengths.iter().partition(|length| context.is_none_or(|context| **length <= context));
    if let (Some(context), false) = (context, too_long.is_empty()) {
        let too_long: Vec<String> = too_long.iter().map(usize::to_string).collect();
        left_out.push(format!("{task} at {} tokens: the server's context is {context}", too_long.join(", ")));
    }
    fit
}
