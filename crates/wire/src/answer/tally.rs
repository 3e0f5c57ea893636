//! What the events of one answer add up to: chunks, texts, counts, ends.
//!
//! Which event is output (definitions §1): one with visible text of any kind. An event without
//! visible text is output only where its tokens are proven: by token ids or log-probabilities in it,
//! by a running usage count that grew with it (completions only: in chat such tokens belong to the
//! next event with text), or, on completions, when one token for each event is exactly what the final
//! usage says. An event that only ends the answer is none, so no gap arises at the end.

use record::{Chunk, Finish, InputTokens, Kind, Oddity, OutputTokens, Request};
use spec::{Dialect, Nanos};

use super::Expect;
use crate::dialect::frame::{Choice, Counts, Frame, finish};
use crate::stamp::Stamp;

/// The events of one answer, added up.
#[derive(Debug, Default)]
pub struct Tally {
    seen: Vec<Seen>,
    choices: Vec<Told>,
    counts: Vec<(From, Counts)>,
    done: Option<Nanos>,
    /// `[DONE]` came.
    pub saw_done: bool,
    whole: bool,
    clamped: bool,
    server_id: Option<String>,
}

/// An event of one choice that is, or may turn out to be, output.
#[derive(Debug, Clone, Copy)]
struct Seen {
    chunk: Chunk,
    /// No visible text.
    silent: bool,
    /// It carries the finish reason too.
    last: bool,
    /// The output tokens so far, by the running usage.
    running: Option<u32>,
    /// It is known to be output.
    output: bool,
}

/// One choice.
#[derive(Debug)]
struct Told {
    index: u16,
    text: String,
    /// Where the text of its last chunk begins.
    previous: Option<usize>,
    /// Where its answer begins, after any thinking.
    answer: Option<usize>,
    finish: Option<Finish>,
    /// The finish reason came without text.
    silent_end: bool,
    chunks: u32,
    cumulative: u32,
    run: u32,
    longest_run: u32,
}

/// Which choice a usage count came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Choice(u16),
    None,
}

impl Tally {
    /// Keeps time from running backwards between two reads.
    pub fn in_order(&mut self, last: Option<Stamp>, mut stamp: Stamp) -> Stamp {
        let floor = last.map_or(Nanos::ZERO, |last| last.arrival);
        if stamp.arrival < floor || stamp.seen < stamp.arrival {
            self.clamped = true;
            stamp.arrival = stamp.arrival.min(stamp.seen).max(floor);
            stamp.seen = stamp.seen.max(stamp.arrival);
        }
        stamp.earliest = stamp.earliest.min(stamp.arrival);
        stamp
    }

    /// `[DONE]`.
    pub fn end_mark(&mut self, stamp: Stamp) {
        self.saw_done = true;
        self.done.get_or_insert(stamp.arrival);
    }

    /// The whole answer came as one value, whether or not it gave a finish reason.
    pub fn whole(&mut self, stamp: Stamp) {
        self.whole = true;
        self.done.get_or_insert(stamp.arrival);
    }

    /// One event, or a whole answer. The error is a finish reason that says the server failed.
    pub fn frame(&mut self, frame: &Frame<'_>, stamp: Stamp, dialect: Dialect) -> Result<(), String> {
        if self.server_id.is_none() {
            self.server_id = frame.id.get().map(|id| id.chars().take(128).collect());
        }
        let running = match frame.choices.0.as_slice() {
            [_] => frame.counts().and_then(|c| c.output),
            _ => None,
        };
        self.counts_only(frame);
        let mut broken = Ok(());
        for choice in &frame.choices.0 {
            broken = broken.and(self.choice(choice, running, stamp, dialect));
        }
        broken
    }

    /// An event after the end mark: counts may follow it, output may not. What it would add to would be wrong.
    pub fn after_end(&mut self, frame: &Frame<'_>) -> Result<(), String> {
        self.counts_only(frame);
        let mut text = String::new();
        match frame.choices.0.iter().any(|choice| choice.write(&mut text).is_some()) {
            true => Err("output came after [DONE]".to_owned()),
            false => Ok(()),
        }
    }

    /// The token counts of an event.
    pub fn counts_only(&mut self, frame: &Frame<'_>) {
        let Some(counts) = frame.counts() else { return };
        let from = match frame.choices.0.as_slice() {
            [choice] => From::Choice(choice.number()),
            _ => From::None,
        };
        // A running count replaces the one before of the same choice; what it leaves out stays.
        let before = match from {
            From::Choice(_) => self.counts.iter().position(|(of, _)| *of == from),
            From::None => None,
        };
        let kept = before.map_or(Counts::default(), |at| self.counts.remove(at).1);
        self.counts.push((from, counts.or(kept)));
    }

    fn choice(
        &mut self,
        choice: &Choice<'_>,
        running: Option<u32>,
        stamp: Stamp,
        dialect: Dialect,
    ) -> Result<(), String> {
        let index = choice.number();
        let at = self.place(index);
        let told = &mut self.choices[at];
        let begin = told.text.len();
        let kind = choice.write(&mut told.text);
        let reason = choice.finish().map(finish);
        let proven = choice.proven_tokens();
        // The end mark of the model is a token, but no output.
        let ends_by_mark = matches!(reason, Some(Finish::Stop | Finish::ToolCalls));
        if let Some(kind) = kind {
            told.chunk(begin, kind);
        }
        let silent_output = kind.is_none() && proven.is_some() && !ends_by_mark;
        let maybe = kind.is_none() && dialect == Dialect::Completions && !ends_by_mark;
        if kind.is_some() || silent_output || maybe {
            let bytes = u32::try_from(told.text.len() - begin).unwrap_or(u32::MAX);
            let mut chunk = stamp.chunk(kind.unwrap_or(Kind::Answer), index, bytes);
            chunk.tokens = proven;
            self.seen.push(Seen {
                chunk,
                silent: kind.is_none(),
                last: reason.is_some(),
                running,
                output: kind.is_some() || silent_output,
            });
        }
        let Some(reason) = reason.filter(|_| told.finish.is_none()) else { return Ok(()) };
        self.done = Some(stamp.arrival);
        told.silent_end = kind.is_none();
        let failed = match &reason {
            Finish::Other(word) if matches!(word.as_str(), "error" | "abort") => {
                Err(format!("the server ended the answer with finish reason `{word}`"))
            }
            _ => Ok(()),
        };
        told.finish = Some(reason);
        failed
    }

    /// Text of one choice that came with nothing else.
    pub fn more(&mut self, text: &str, kind: Kind, choice: u16, stamp: Stamp) {
        let at = self.place(choice);
        let told = &mut self.choices[at];
        let begin = told.text.len();
        told.text.push_str(text);
        told.chunk(begin, kind);
        let bytes = u32::try_from(text.len()).unwrap_or(u32::MAX);
        let chunk = stamp.chunk(kind, choice, bytes);
        self.seen.push(Seen { chunk, silent: false, last: false, running: None, output: true });
    }

    /// Where the choice with this number is kept.
    fn place(&mut self, index: u16) -> usize {
        self.choices.iter().position(|told| told.index == index).unwrap_or_else(|| {
            self.choices.push(Told::new(index));
            self.choices.len() - 1
        })
    }

    /// Each choice seen has a finish reason, or the answer came whole.
    pub fn is_finished(&self) -> bool {
        self.whole || (!self.choices.is_empty() && self.choices.iter().all(|told| told.finish.is_some()))
    }

    /// The protocol's own end came.
    pub fn is_complete(&self) -> bool {
        self.saw_done || self.is_finished()
    }

    /// Something came that is, or may turn out to be, output. After [`Tally::settle`]: output came.
    pub fn has_output(&self) -> bool {
        !self.seen.is_empty()
    }

    /// What had come, in words.
    pub fn progress(&self) -> String {
        match self.seen.iter().filter(|seen| seen.output).count() {
            0 => "no output had come".to_owned(),
            1 => "1 chunk had come".to_owned(),
            n => format!("{n} chunks had come"),
        }
    }

    /// Decides which silent events are output and how many tokens each chunk holds.
    pub fn settle(&mut self, dialect: Dialect) {
        let total = self.usage().output;
        for told in 0..self.choices.len() {
            self.settle_running(self.choices[told].index, dialect);
        }
        if self.choices.len() > 1 {
            // Some servers count each choice, some all together: only sums that fit are believed.
            let sum: Option<u64> =
                self.seen.iter().filter(|s| s.output).map(|s| s.chunk.tokens.map(u64::from)).sum();
            if let (Some(sum), Some(total)) = (sum, total)
                && sum > u64::from(total)
            {
                self.seen.iter_mut().for_each(|s| s.chunk.tokens = None);
            }
        } else {
            self.settle_by_total(total);
        }
        self.seen.retain(|seen| seen.output);
    }

    /// Running usage: each chunk of the choice tells the tokens so far.
    fn settle_running(&mut self, choice: u16, dialect: Dialect) {
        let of_choice = |s: &&mut Seen| s.chunk.choice == choice;
        let visible = |s: &&Seen| s.chunk.choice == choice && !s.silent;
        let silent = |s: &&Seen| s.chunk.choice == choice && s.silent;
        let runs = if self.seen.iter().any(|s| visible(&s)) {
            self.seen.iter().filter(visible).all(|s| s.running.is_some())
        } else {
            // One count, at the end, is a total and no running count.
            self.seen.iter().filter(silent).all(|s| s.running.is_some())
                && self.seen.iter().filter(silent).any(|s| !s.last)
        };
        let grows =
            self.seen.iter().filter(|s| s.chunk.choice == choice).filter_map(|s| s.running).is_sorted();
        if !runs || !grows {
            return;
        }
        let mut before = 0;
        for seen in self.seen.iter_mut().filter(of_choice) {
            let Some(now) = seen.running else { continue };
            if !seen.output && (dialect == Dialect::Chat || now == before) {
                continue;
            }
            seen.output = true;
            seen.chunk.tokens = Some(now - before);
            before = now;
        }
    }

    /// Completions without running counts: silent events are tokens when, together with the visible
    /// ones, they are exactly as many as the total says. The event with the finish reason is one of
    /// them only where the total needs it, and then it is output unless the model ended by itself.
    fn settle_by_total(&mut self, total: Option<u32>) {
        let undecided = self.seen.iter().any(|s| s.silent && !s.output && !s.last);
        let told_apart = self.seen.iter().any(|s| s.chunk.tokens.is_some());
        let Some(total) = total.map(u64::from).filter(|_| undecided && !told_apart) else { return };
        let before_end = self.seen.iter().filter(|s| !s.last || !s.silent).count() as u64;
        let silent_end = u64::from(self.choices.iter().any(|told| told.silent_end));
        if before_end == total || before_end + silent_end == total {
            for seen in self.seen.iter_mut().filter(|s| !s.last || !s.silent || before_end < total) {
                seen.output = true;
                seen.chunk.tokens = Some(1);
            }
        }
    }

    /// The token counts of the whole answer: the last ones given. With several choices a server may
    /// count each one apart (llama.cpp): where the last count is smaller than the number of chunks,
    /// the counts are added up.
    pub fn usage(&self) -> Counts {
        let mut last = Counts::default();
        for (_, counts) in &self.counts {
            last = counts.or(last);
        }
        let visible = self.seen.iter().filter(|s| s.output).count() as u64;
        if self.choices.len() < 2 || last.output.is_none_or(|n| u64::from(n) >= visible) {
            return last;
        }
        let alone = self.counts.iter().filter(|(from, _)| *from == From::None).count();
        let mut parts: Vec<(From, Counts)> = Vec::new();
        for &(from, counts) in &self.counts {
            match parts.iter_mut().find(|(of, _)| *of == from && from != From::None) {
                Some(part) => part.1 = counts,
                None if alone > 1 && from != From::None => {}
                None => parts.push((from, counts)),
            }
        }
        let sum = |of: fn(&Counts) -> Option<u32>| {
            parts.iter().filter_map(|(_, c)| of(c)).reduce(u32::saturating_add)
        };
        let most = |of: fn(&Counts) -> Option<u32>| parts.iter().filter_map(|(_, c)| of(c)).max();
        // One prompt serves every choice, so its count is not added up.
        Counts {
            output: sum(|c| c.output),
            reasoning: sum(|c| c.reasoning),
            input: most(|c| c.input),
            cached: most(|c| c.cached),
        }
    }

    /// Fills the row and gives the joined text. After [`Tally::settle`].
    pub fn fill(mut self, row: &mut Request, expect: &Expect) -> Option<String> {
        let usage = self.usage();
        self.choices.sort_by_key(|told| told.index);
        row.done = self.done;
        row.server_id = self.server_id.take();
        row.finish = self.choices.first().and_then(|told| told.finish.clone());
        row.input = InputTokens {
            server: usage.input.or(row.input.server),
            cached: usage.cached.or(row.input.cached),
            ..row.input
        };
        row.output = OutputTokens { usage: usage.output, reasoning: usage.reasoning, ..row.output };
        row.cumulative_chunks = self.choices.iter().map(|told| told.cumulative).sum();
        row.cumulative_run = self.choices.iter().map(|told| told.longest_run).max().unwrap_or(0);
        row.echo_tokens = self.echo(expect);
        self.undo_repetition();
        row.chunks = self.seen.iter().map(|seen| seen.chunk).collect();
        let mut reads: Vec<u32> = row.chunks.iter().map(|chunk| chunk.read).collect();
        reads.dedup();
        row.output_reads = u32::try_from(reads.len()).unwrap_or(u32::MAX);
        self.oddities(row, expect, &usage);
        let text: String = self.choices.iter().map(|told| told.text.as_str()).collect();
        (!text.is_empty()).then_some(text)
    }

    fn oddities(&self, row: &mut Request, expect: &Expect, usage: &Counts) {
        let mut odd = |when: bool, oddity: Oddity| {
            if when {
                row.oddities.push(oddity);
            }
        };
        let ok = row.state.is_ok();
        odd(ok && row.streamed && !self.saw_done, Oddity::NoDone);
        odd(ok && self.saw_done && !self.is_finished(), Oddity::NoFinish);
        odd(ok && expect.usage && usage.output.is_none(), Oddity::NoUsage);
        odd(ok && self.mismatch(usage.output, row.streamed), Oddity::CountMismatch);
        odd(self.choices.len() > 1, Oddity::SeveralChoices);
        odd(self.clamped, Oddity::ClampedStamp);
        row.oddities.sort();
        row.oddities.dedup();
    }

    /// The usage differs from what the chunks prove by more than 1 %. The end mark that a model
    /// writes for each choice is counted by some servers and never seen.
    fn mismatch(&self, usage: Option<u32>, streamed: bool) -> bool {
        let Some(usage) = usage.map(u64::from).filter(|_| streamed) else { return false };
        let least = self.seen.iter().filter(|s| s.chunk.tokens != Some(0)).count() as u64;
        if least > usage {
            return true;
        }
        let proven: Option<u64> = self.seen.iter().map(|s| s.chunk.tokens.map(u64::from)).sum();
        let Some(proven) = proven else { return false };
        let marks = self
            .choices
            .iter()
            .filter(|told| matches!(told.finish, Some(Finish::Stop | Finish::ToolCalls)))
            .count() as u64;
        let slack = usage / 100;
        proven > usage + slack || proven + marks.max(slack) < usage
    }

    /// Longest common prefix of prompt and answer, in tokens of about 4 bytes, leading white space
    /// aside.
    fn echo(&self, expect: &Expect) -> Option<u32> {
        let prompt = expect.prompt.as_deref()?.trim_start();
        let told = self.choices.first()?;
        let answer = told.text.get(told.answer?..)?.trim_start();
        let same = prompt.bytes().zip(answer.bytes()).take_while(|(a, b)| a == b).count();
        Some(u32::try_from(same / 4).unwrap_or(u32::MAX))
    }

    /// Where every chunk repeats the one before it and extends it, the text is the last chunk's, and
    /// each chunk brings only what it adds.
    fn undo_repetition(&mut self) {
        for told in &mut self.choices {
            if told.cumulative < 2 || told.cumulative + 1 != told.chunks {
                continue;
            }
            if let Some(begin) = told.previous {
                told.text.drain(..begin);
            }
            let mut before = 0;
            for seen in self.seen.iter_mut().filter(|s| s.chunk.choice == told.index && !s.silent) {
                let now = seen.chunk.text_bytes;
                seen.chunk.text_bytes = now.saturating_sub(before);
                before = now;
            }
        }
    }
}

impl Told {
    fn new(index: u16) -> Self {
        Self {
            index,
            text: String::new(),
            previous: None,
            answer: None,
            finish: None,
            silent_end: false,
            chunks: 0,
            cumulative: 0,
            run: 0,
            longest_run: 0,
        }
    }

    /// A chunk whose text begins at `begin` and ends where the text ends.
    fn chunk(&mut self, begin: usize, kind: Kind) {
        self.chunks += 1;
        let (before, now) = self.text.split_at(begin);
        let before = self.previous.map_or("", |at| &before[at..]);
        if !before.is_empty() && now.len() > before.len() && now.starts_with(before) {
            self.cumulative += 1;
            self.run += 1;
            self.longest_run = self.longest_run.max(self.run);
        } else {
            self.run = 0;
        }
        self.previous = Some(begin);
        if kind == Kind::Answer {
            self.answer.get_or_insert(begin);
        }
    }
}
