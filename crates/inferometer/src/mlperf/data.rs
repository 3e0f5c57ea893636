//! The data set of a run: rows of a file, or made-up text.

use std::sync::Arc;

use anyhow::Result;
use corpus::Corpus;
use plan::LengthDraws;
use spec::{CacheProtocol, Lengths, Source, Spec, TokenizerChoice, Workload};

use super::wrong;
use crate::cli::MlperfDataArgs;
use crate::failure::Failure;
use crate::run::{self, RowLengths};

/// More rows than this are no data set.
const MOST_ROWS: u64 = 10_000_000;

/// What is known of it before a run.
pub struct DataSet {
    /// Its name in logs.
    pub name: String,
    /// How many samples it has.
    pub rows: u64,
    /// Whether no prompt begins as another does.
    pub beginnings_differ: bool,
}

impl DataSet {
    /// The file that flags name, or made-up text of as many rows as they, else the benchmark, say.
    pub fn open(args: &MlperfDataArgs, rows_of_model: u64) -> Result<Self> {
        let Some(path) = &args.dataset else {
            let rows = args.samples.unwrap_or(rows_of_model);
            if rows == 0 || rows > MOST_ROWS {
                return Err(wrong(format!("--samples {rows}: at least 1, at most {MOST_ROWS}")));
            }
            return Ok(Self { name: "inferometer synthetic".to_owned(), rows, beginnings_differ: true });
        };
        crate::files::check(path, "the data set")?;
        let workload = Workload {
            source: Source::Jsonl(path.to_owned()),
            isl: Lengths::Data,
            osl: Lengths::Data,
            cache: CacheProtocol::Unique,
            tokenizer: TokenizerChoice::None,
        };
        let census = Corpus::in_file_order(&workload, None, 0).map_err(Failure::request)?.census();
        let rows = census.rows.unwrap_or(0);
        if rows > MOST_ROWS {
            return Err(wrong(format!("{}: {rows} rows, at most {MOST_ROWS}", path.display())));
        }
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(Self { name, rows, beginnings_differ: census.unique_beginnings == Some(rows) })
    }

    /// The lengths of each row, drawn once, so that a row is the same prompt each time.
    pub fn lengths(&self, spec: &Spec) -> Result<Arc<[RowLengths]>> {
        let lists = run::lists(spec)?;
        let draws = |lengths: &Lengths, list: Option<Vec<u32>>, name| {
            LengthDraws::new(lengths, list.map(Arc::from).as_ref(), spec.seed, name).map_err(Failure::request)
        };
        let mut isl = draws(&spec.workload.isl, lists.isl, plan::ISL)?;
        let mut osl = draws(&spec.workload.osl, lists.osl, plan::OSL)?;
        Ok((0..self.rows).map(|_| RowLengths { isl: isl.draw(), osl: osl.draw() }).collect())
    }
}
