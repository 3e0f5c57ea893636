//! From flags and files to a draft, and from a draft to a spec. No side effects but reading the files named.

use std::path::Path;

use anyhow::{Context, Result};
use spec::{Draft, Loads, Spec, SpecError};

use crate::cli::{
    AnalysisArgs, CapacityArgs, LoadArgs, QualityServerArgs, RunArgs, SettingArgs, SloArgs, SubjectArgs,
    SweepArgs,
};
use crate::failure::Failure;

/// The spec of a run: the file, flags over it, defaults below both.
pub fn spec(args: &RunArgs) -> Result<Spec> {
    resolved(flags(&args.subject, &args.load, &args.settings)?, base(&args.subject)?)
}

/// The loads of a sweep, with the spec of each; all but the load and its own defaults are the same.
pub fn sweep(args: &SweepArgs) -> Result<(Loads, Vec<Spec>)> {
    let loads = match (&args.load.concurrency, &args.load.rate) {
        (Some(list), _) => Loads::concurrency(list).map_err(|e| (e, "--concurrency")),
        (None, Some(list)) => Loads::rate(list).map_err(|e| (e, "--rate")),
        (None, None) => {
            return Err(Failure::wrong_request(&[SpecError::new("a sweep needs its loads")
                .hint("inferometer sweep … --concurrency 1,2,4..256, or --rate 1..40:8")])
            .into());
        }
    };
    let loads = loads.map_err(|(error, flag)| {
        let error = SpecError::from(error);
        Failure::wrong_request(&[SpecError { message: format!("{flag}: {}", error.message), ..error }])
    })?;
    let texts: Vec<String> = match &loads {
        Loads::Concurrency(users) => users.iter().map(u32::to_string).collect(),
        Loads::Rate(rates) => rates.iter().map(f64::to_string).collect(),
    };
    let base = base(&args.subject)?;
    let of = |text: String| {
        let mut load = LoadArgs {
            think: args.load.think.clone(),
            burstiness: args.load.burstiness.clone(),
            cap: args.load.cap.clone(),
            ..LoadArgs::default()
        };
        let users = match &loads {
            Loads::Concurrency(_) => load.concurrency.insert(text).parse().ok(),
            Loads::Rate(_) => {
                load.rate = Some(text);
                None
            }
        };
        let mut draft = flags(&args.subject, &load, &args.settings)?.over(base.clone());
        // Lanes are meant for the large loads; a lane without a user would be refused at the small ones.
        draft.client.lanes = draft.client.lanes.map(|lanes| users.map_or(lanes, |users| lanes.min(users)));
        draft.resolve().map_err(|errors| Failure::wrong_request(&errors).into())
    };
    let specs = texts.into_iter().map(of).collect::<Result<_>>()?;
    Ok((loads, specs))
}

/// The specs of a sweep that goes on, with what no record keeps (secrets) from flags; anything else
/// that flags would change is refused.
pub fn resumed(args: &SweepArgs, kept: &[Spec], folder: &Path) -> Result<Vec<Spec>> {
    let none = LoadArgs::default();
    let flags = flags(&args.subject, &none, &args.settings)?;
    let over = base(&args.subject)?;
    kept.iter().map(|kept| again(flags.clone(), over.clone(), kept, "sweep", folder)).collect()
}

/// The spec of a search's probes, with the load of the first.
pub fn capacity(args: &CapacityArgs) -> Result<Spec> {
    let phases = &args.settings.phases;
    let given = [
        ("--duration", phases.duration.is_some()),
        ("--requests", phases.requests.is_some()),
        ("--warmup", phases.warmup.is_some()),
    ];
    if let Some((flag, _)) = given.iter().find(|(_, given)| *given) {
        return Err(Failure::wrong_request(&[SpecError::new(format!(
            "{flag} has no place in a search: it warms the server up and decides itself how long a probe lasts"
        ))
        .hint("--budget 20m bounds the time of all probes")])
        .into());
    }
    let load = LoadArgs { concurrency: Some("1".to_owned()), ..LoadArgs::default() };
    let mut draft = flags(&args.subject, &load, &args.settings)?;
    for limit in &args.maximize.subject_to {
        draft.set("slo", limit).map_err(|error| {
            Failure::wrong_request(&[SpecError {
                message: format!("--subject-to: {}", error.message),
                ..error
            }])
        })?;
    }
    resolved(draft, base(&args.subject)?)
}

/// The spec of a search that goes on, with what no record keeps (secrets) from flags; anything else
/// that flags would change is refused.
pub fn resumed_search(args: &CapacityArgs, kept: &Spec, folder: &Path) -> Result<Spec> {
    let none = LoadArgs::default();
    let flags = flags(&args.subject, &none, &args.settings)?;
    again(flags, base(&args.subject)?, kept, "search", folder)
}

/// A server that is asked one question at a time, for whole answers. What the spec says of a load means nothing then.
pub fn quality(args: &QualityServerArgs) -> Result<Spec> {
    let mut setter = Setter::default();
    setter.targets(std::slice::from_ref(&args.target));
    for (flag, key, value) in [
        ("--model", "api.model", args.model.as_deref()),
        ("--health", "api.readiness.path", args.health.as_deref()),
        ("--wait", "api.readiness.wait", args.wait.as_deref()),
        ("--timeout", "timeouts.total", Some(args.timeout.as_str())),
        ("--insecure", "api.tls.insecure", args.insecure.then_some("true")),
        ("--http2", "client.http2", args.http2.then_some("true")),
        ("--unix", "client.unix", args.unix.as_ref().and_then(|path| path.to_str())),
        ("--cacert", "api.tls.cacert", args.cacert.as_ref().and_then(|path| path.to_str())),
        ("answers in one piece", "api.stream", Some("false")),
        ("answers of any length", "api.length.force", Some("none")),
    ] {
        setter.text(flag, key, value);
    }
    match (&args.key_env, &args.key_file) {
        (Some(name), _) => setter.text("--api-key-env", "api.key", Some(&format!("env:{name}"))),
        (None, Some(path)) => {
            setter.text("--api-key-file", "api.key", Some(&format!("file:{}", path.display())))
        }
        (None, None) => {}
    }
    for header in &args.header {
        setter.pair("--header", header, ':', "NAME: VALUE", "api.headers.");
    }
    setter.extra_body(args.extra_body.as_deref());
    let draft = setter.done().map_err(|errors| Failure::wrong_request(&errors))?;
    let spec = resolved(draft, Draft::default())?;
    if let spec::Target::Sim(sim) = spec.target.first() {
        return Err(Failure::request(anyhow::anyhow!(
            "`{sim}` has a timetable and no model: there is no quality to measure\n\
             hint: name a server, as in inferometer quality probe http://127.0.0.1:8000"
        ))
        .into());
    }
    Ok(spec)
}

/// A kept spec with flags over it, which may add secrets and change nothing else.
fn again(flags: Draft, over: Draft, kept: &Spec, what: &str, folder: &Path) -> Result<Spec> {
    let json = serde_json::to_value(kept)?;
    let draft = Draft::from_json(&json).map_err(|errors| Failure::wrong_request(&errors))?;
    let spec = resolved(flags, over.over(draft))?;
    if spec.redacted() == *kept {
        return Ok(spec);
    }
    Err(Failure::request(anyhow::anyhow!(
        "the {what} in {} was begun with other settings than these flags ask for\n\
         hint: give --resume alone, with --api-key-env or --header where the server wants a secret",
        folder.display()
    ))
    .into())
}

fn base(subject: &SubjectArgs) -> Result<Draft> {
    subject.file.as_ref().map_or_else(|| Ok(Draft::default()), |path| file(path))
}

fn resolved(flags: Draft, base: Draft) -> Result<Spec> {
    flags.over(base).resolve().map_err(|errors| Failure::wrong_request(&errors).into())
}

/// The draft in a spec file; `-` is standard input.
pub fn file(path: &Path) -> Result<Draft> {
    let name = path.display().to_string();
    let bytes = if name == "-" {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut bytes)
            .context("standard input cannot be read")
            .map_err(Failure::request)?;
        bytes
    } else if path.join("run.json").is_file() {
        return Err(Failure::request(anyhow::anyhow!(
            "{name} is a run folder, not a spec file\nhint: the spec of that run is in {}",
            path.join("run.json").display()
        ))
        .into());
    } else {
        crate::files::check(path, "the spec")?;
        std::fs::read(path)
            .with_context(|| format!("cannot read the spec file {name}"))
            .map_err(Failure::request)?
    };
    let text = String::from_utf8(bytes)
        .with_context(|| format!("{name} is no text in UTF-8; a spec file is YAML or JSON"))
        .map_err(Failure::request)?;
    Draft::from_text(&name, &text).map_err(|errors| Failure::wrong_request(&errors).into())
}

/// What flags ask for. Every fault is told, each with the flag that it concerns.
fn flags(subject: &SubjectArgs, load: &LoadArgs, args: &SettingArgs) -> Result<Draft> {
    gathered(subject, load, args).map_err(|errors| Failure::wrong_request(&errors).into())
}

fn gathered(subject: &SubjectArgs, load: &LoadArgs, args: &SettingArgs) -> Result<Draft, Vec<SpecError>> {
    let mut setter = Setter::default();
    setter.targets(&subject.target);
    setter.text("--model", "api.model", subject.model.as_deref());
    for (flag, key, value) in [
        ("--concurrency", "load.concurrency", &load.concurrency),
        ("--think", "load.think", &load.think),
        ("--start-over", "load.start_over", &load.start_over),
        ("--rate", "load.rate", &load.rate),
        ("--burstiness", "load.burstiness", &load.burstiness),
        ("--cap", "load.cap", &load.cap),
        ("--ramp", "load.ramp", &load.ramp),
        ("--warmup", "phases.warmup", &args.phases.warmup),
        ("--drain", "phases.drain", &args.phases.drain),
        ("--isl", "workload.isl", &args.workload.isl),
        ("--osl", "workload.osl", &args.workload.osl),
        ("--data", "workload.source", &args.workload.data),
        ("--cache", "workload.cache", &args.workload.cache),
        ("--tokenizer", "workload.tokenizer", &args.workload.tokenizer),
        ("--seed", "seed", &args.workload.seed),
        ("--attain", "attain", &args.slo.attain),
        ("--api", "api.dialect", &args.api.api),
        ("--path", "api.path", &args.api.path),
        ("--temperature", "api.sampling.temperature", &args.api.temperature),
        ("--top-p", "api.sampling.top_p", &args.api.top_p),
        ("--top-k", "api.sampling.top_k", &args.api.top_k),
        ("--max-field", "api.length.field", &args.api.max_field),
        ("--force", "api.length.force", &args.api.force),
        ("--health", "api.readiness.path", &args.api.health),
        ("--wait", "api.readiness.wait", &args.api.wait),
        ("--connect-timeout", "timeouts.connect", &args.timeouts.connect_timeout),
        ("--first-token-timeout", "timeouts.first_token", &args.timeouts.first_token_timeout),
        ("--idle-timeout", "timeouts.idle", &args.timeouts.idle_timeout),
        ("--total-timeout", "timeouts.total", &args.timeouts.total_timeout),
        ("--lanes", "client.lanes", &args.client.lanes),
        ("--connections", "client.connections", &args.client.connections),
        ("--retries", "client.retries", &args.client.retries),
        ("--metrics-every", "client.metrics_every", &args.client.metrics_every),
    ] {
        setter.text(flag, key, value.as_deref());
    }
    if let (Some(rate), Some(users)) = (&load.rate, &load.concurrency) {
        // Told in flags, with the command that was probably meant.
        return Err(vec![
            SpecError::new(format!(
                "--rate and --concurrency name two load models\n\n  \
                 --rate {rate:<12} open loop: requests leave on a timetable, whatever returns\n  \
                 --concurrency {users:<5} closed loop: {users} users, each waits for its answer\n"
            ))
            .hint(format!(
                "an open loop that never has more than {users} in flight:\n        \
                 inferometer run … --rate {rate} --cap {users}     (waiting at the cap is measured)"
            )),
        ]);
    }
    match (&args.phases.duration, &args.phases.requests) {
        (Some(_), Some(_)) => {
            setter
                .errors
                .push(SpecError::new("--duration and --requests name two ends of the measurement").hint(
                "give one of them; --duration 30s measures for a time, --requests 500 a number of requests",
            ))
        }
        (Some(time), None) => setter.text("--duration", "phases.measure", Some(time)),
        (None, Some(n)) => setter.text("--requests", "phases.measure", Some(&format!("{n} requests"))),
        (None, None) => {}
    }
    for (flag, key, given, value) in [
        ("--no-stream", "api.stream", args.api.no_stream, "false"),
        ("--no-usage", "api.ask_usage", args.api.no_usage, "false"),
        ("--no-check", "api.readiness.check", args.api.no_check, "false"),
        ("--insecure", "api.tls.insecure", args.api.insecure, "true"),
        ("--no-kernel-stamps", "client.kernel_stamps", args.client.no_kernel_stamps, "false"),
        ("--keep-text", "client.keep_text", args.record.keep_text, "true"),
        ("--pin", "client.pin", args.client.pin, "true"),
        ("--realtime", "client.realtime", args.client.realtime, "true"),
        ("--http2", "client.http2", args.client.http2, "true"),
    ] {
        setter.text(flag, key, given.then_some(value));
    }
    if !args.client.bind.is_empty() {
        setter.text("--bind", "client.bind", Some(&args.client.bind.join(",")));
    }
    setter.text("--unix", "client.unix", args.client.unix.as_ref().and_then(|p| p.to_str()));
    setter.text("--cacert", "api.tls.cacert", args.api.cacert.as_ref().and_then(|p| p.to_str()));
    match (&args.api.key_env, &args.api.key_file) {
        (Some(_), Some(_)) => setter.errors.push(
            SpecError::new("--api-key-env and --api-key-file name two places for one key")
                .hint("give one of them"),
        ),
        (Some(name), None) => setter.text("--api-key-env", "api.key", Some(&format!("env:{name}"))),
        (None, Some(path)) => {
            setter.text("--api-key-file", "api.key", Some(&format!("file:{}", path.display())))
        }
        (None, None) => {}
    }
    for header in &args.api.header {
        setter.pair("--header", header, ':', "NAME: VALUE", "api.headers.");
    }
    for label in &args.record.label {
        setter.pair("--label", label, '=', "KEY=VALUE", "labels.");
    }
    setter.extra_body(args.api.extra_body.as_deref());
    setter.limits(&args.slo);
    setter.analysis(&args.analysis);
    setter.done()
}

/// The analysis and the limits of a recorded run under other flags.
pub fn reanalysis(spec: &mut Spec, analysis: &AnalysisArgs, limits: Option<&SloArgs>) -> Result<()> {
    let mut setter = Setter::default();
    setter.analysis(analysis);
    if let Some(limits) = limits {
        setter.limits(limits);
        setter.text("--attain", "attain", limits.attain.as_deref());
    }
    let draft = setter.done().map_err(|errors| Failure::wrong_request(&errors))?;
    spec.analysis.percentile = draft.analysis.percentile.unwrap_or(spec.analysis.percentile);
    spec.analysis.view = draft.analysis.view.or(spec.analysis.view);
    if !(draft.slo.joint.is_empty() && draft.slo.marginal.is_empty()) {
        spec.slo.joint = draft.slo.joint;
        spec.slo.marginal = draft.slo.marginal;
    }
    if let Some(attain) = draft.slo.attain {
        spec.slo.attain = attain.value();
    }
    Ok(())
}

/// Fills a draft and gathers what is wrong.
#[derive(Default)]
struct Setter {
    draft: Draft,
    errors: Vec<SpecError>,
}

impl Setter {
    fn text(&mut self, flag: &str, key: &str, value: Option<&str>) {
        let Some(value) = value else { return };
        if let Err(error) = self.draft.set(key, value) {
            self.errors.push(SpecError { message: format!("{flag}: {}", error.message), ..error });
        }
    }

    fn targets(&mut self, texts: &[String]) {
        let mut targets = Vec::new();
        for text in texts {
            let before = self.errors.len();
            self.text("TARGET", "target", Some(text));
            match self.errors.get_mut(before) {
                Some(error) if !text.contains("://") => {
                    error.hint = Some(if text.ends_with(".html") {
                        "--html takes no file: the page is written into the folder of the run as report.html \
                         (--out names where folders are made)"
                            .to_owned()
                    } else {
                        format!("did you mean http://{text}?")
                    });
                }
                _ => targets.extend(self.draft.target.take().iter().flat_map(spec::Targets::iter).cloned()),
            }
        }
        self.draft.target = spec::Targets::new(targets);
    }

    fn pair(&mut self, flag: &str, text: &str, separator: char, form: &str, prefix: &str) {
        match text.split_once(separator) {
            Some((name, value)) if !name.trim().is_empty() => {
                self.text(flag, &format!("{prefix}{}", name.trim()), Some(value.trim()));
            }
            // The text may hold a secret: it is not repeated.
            _ => self.errors.push(
                SpecError::new(format!(
                    "{flag}: expected {form}, and there is no `{separator}` in what came"
                ))
                .hint(format!("{flag} '{form}'")),
            ),
        }
    }

    fn extra_body(&mut self, text: Option<&str>) {
        let Some(text) = text else { return };
        match serde_json::from_str(text) {
            Ok(serde_json::Value::Object(map)) => self.draft.api.extra_body = map,
            Ok(_) => self.errors.push(
                SpecError::new("--extra-body: expected a JSON object")
                    .hint(r#"--extra-body '{"chat_template_kwargs": {"enable_thinking": false}}'"#),
            ),
            Err(e) => self.errors.push(
                SpecError::new(format!("--extra-body is no JSON: {e}"))
                    .hint(r#"--extra-body '{"chat_template_kwargs": {"enable_thinking": false}}'"#),
            ),
        }
    }

    fn limits(&mut self, limits: &SloArgs) {
        for limit in &limits.slo {
            self.text("--slo", "slo", Some(limit));
        }
    }

    fn analysis(&mut self, analysis: &AnalysisArgs) {
        self.text("--percentile", "analysis.percentile", analysis.percentile.as_deref());
        self.text("--view", "analysis.view", analysis.view.as_deref());
    }

    fn done(self) -> Result<Draft, Vec<SpecError>> {
        if self.errors.is_empty() { Ok(self.draft) } else { Err(self.errors) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_folder_in_place_of_a_spec_file_names_the_spec_in_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("run.json"), "{}").unwrap();
        let error = file(folder.path()).unwrap_err().to_string();
        assert!(error.contains("hint: ") && error.ends_with("run.json"), "{error}");
    }
}
