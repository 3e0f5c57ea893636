//! Requests made up ahead of time: prompt, body, identity.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

use corpus::{Content, Corpus};
use plan::Intent;
use record::{FirstRequest, InputTokens, PromptIdentity, RunFolder, Scrubber};
use spec::{Api, Spec};
use wire::dialect::{Adaptation, PromptRef, body};
use wire::{Outgoing, Session, Source, SourceError};

/// Requests that somebody else has drawn: when they leave, and what is in them.
#[derive(Clone)]
pub struct Scripted {
    /// When.
    pub moments: plan::Script,
    /// Which row of the corpus, request after request.
    pub rows: Arc<[u32]>,
    /// Input and output lengths of each row.
    pub lengths: Arc<[RowLengths]>,
}

/// Lengths of a row, so that it is the same prompt each time; `None` as in [`Intent`].
#[derive(Debug, Clone, Copy)]
pub struct RowLengths {
    /// Input tokens.
    pub isl: Option<u32>,
    /// Output tokens.
    pub osl: Option<u32>,
}

impl Scripted {
    /// The row of an intent, and the intent with that row's lengths.
    fn row(&self, intent: Intent) -> Option<(u64, Intent)> {
        let row = *self.rows.get(usize::try_from(intent.seq).ok()?)?;
        let RowLengths { isl, osl } = *self.lengths.get(row as usize)?;
        Some((u64::from(row), Intent { isl, osl, ..intent }))
    }
}

/// Makes the requests of a run from its corpus.
pub struct Prompts {
    corpus: Corpus,
    api: Api,
    model: String,
    adaptation: Adaptation,
    url: String,
    first: Option<(RunFolder, Scrubber)>,
    script: Option<Scripted>,
}

impl Prompts {
    /// For one run; the first request is kept in its folder.
    pub fn new(
        corpus: Corpus,
        spec: &Spec,
        session: &Session,
        folder: RunFolder,
        scrubber: Scrubber,
    ) -> Self {
        let path = spec.api.path.as_deref().unwrap_or(spec.api.dialect.default_path());
        Self {
            corpus,
            api: spec.api.clone(),
            model: session.model.clone(),
            adaptation: session.adaptation,
            url: format!("{}{path}", session.target()),
            first: Some((folder, scrubber)),
            script: None,
        }
    }

    /// With rows that somebody else has drawn.
    pub fn scripted(self, script: Option<Scripted>) -> Self {
        Self { script, ..self }
    }

    /// Keeps the first request's exact body, so that a user can see what was sent.
    fn keep_first(&mut self, body: &[u8]) -> Result<(), String> {
        let Some((folder, scrubber)) = self.first.take() else { return Ok(()) };
        let mut headers: BTreeMap<String, String> = self.api.headers.clone();
        headers.insert("content-type".to_owned(), "application/json".to_owned());
        let request = FirstRequest {
            method: "POST".to_owned(),
            url: self.url.clone(),
            headers,
            body: String::from_utf8_lossy(body).into_owned(),
        };
        folder.keep_first_request(&request, &scrubber).map_err(|e| e.to_string())
    }
}

impl Source for Prompts {
    fn next(&mut self, intent: Intent) -> Result<Outgoing, SourceError> {
        let failed = |why: String| SourceError { seq: intent.seq, why };
        let (row, intent) = match &self.script {
            None => (intent.seq, intent),
            Some(script) => {
                script.row(intent).ok_or_else(|| failed("the schedule has no such sample".into()))?
            }
        };
        let prompt = self.corpus.prompt(row, intent.isl).map_err(|e| failed(e.to_string()))?;
        let output_tokens = intent.osl.or(prompt.osl);
        let extra = (!prompt.extra.is_empty()).then_some(&prompt.extra);
        let made = body(
            &self.api,
            &self.model,
            PromptRef::from(&prompt.content),
            output_tokens,
            extra,
            &self.adaptation,
        );
        self.keep_first(&made.bytes).map_err(failed)?;
        let identity = prompt.identity;
        Ok(Outgoing {
            intent,
            body: Bytes::from(made.bytes),
            asked: made.asked,
            prompt: PromptIdentity {
                first16: identity.first16,
                first64: identity.first64,
                whole: identity.whole,
            },
            input: InputTokens {
                planned: prompt.planned,
                counted: prompt.counted,
                shared: prompt.shared,
                ..InputTokens::default()
            },
            text: last_text(prompt.content),
        })
    }
}

/// What an answer that repeats its prompt would repeat.
fn last_text(content: Content) -> Option<Arc<str>> {
    match content {
        Content::Text(text) => Some(Arc::from(text)),
        Content::Messages(messages) => messages.last().map(|message| Arc::from(message.text())),
    }
}
