//! The live view: the run over the whole terminal, drawn by a thread of its own from counters and samples that no
//! lane waits for.

use std::collections::VecDeque;
use std::io::{self, Stderr, stderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use decide::Cause;
use decide::words::{NBSP, clock_time, count, number, percent, time};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::prelude::{Color, CrosstermBackend, Frame, Line, Modifier, Span, Style, Terminal};
use ratatui::symbols;
use ratatui::widgets::{Block, Paragraph, Sparkline, Wrap};
use spec::Nanos;
use wire::{Recent, Snapshot};

use super::course::Course;
use super::progress::{RECENT, Scene};
use super::watch::{Seen, Sends, behind, journal_words};

/// Between two drawings; keys are looked for in between.
const FRAME: Duration = Duration::from_millis(250);
/// Seconds that the small curves remember at most.
const MEMORY: usize = 600;

/// Draws until the run is over or the measurement is to end; the terminal is then as it was before. `q` and Ctrl-C
/// end the measurement.
///
/// # Errors
/// The terminal cannot be set up or written.
pub fn show(course: &Course, scene: &Scene, style: present::Style, done: &AtomicBool) -> io::Result<()> {
    let mut screen = FullScreen::enter()?;
    let mut view = View { course, style, history: History::default(), sends: Sends::default() };
    while !done.load(Ordering::Relaxed) && !scene.stop.load(Ordering::Relaxed) {
        let picture = view.look(scene);
        screen.terminal.draw(|frame| view.draw(frame, &picture))?;
        if asked_to_end()? {
            scene.stop.store(true, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Whether `q` or Ctrl-C came before the next frame is due.
fn asked_to_end() -> io::Result<bool> {
    if !event::poll(FRAME)? {
        return Ok(false);
    }
    let Event::Key(key) = event::read()? else { return Ok(false) };
    let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    Ok(key.kind == KeyEventKind::Press && (interrupt || key.code == KeyCode::Char('q')))
}

/// The terminal while it is ours; given back however the drawing ends.
struct FullScreen {
    terminal: Terminal<CrosstermBackend<Stderr>>,
}

impl FullScreen {
    fn enter() -> io::Result<Self> {
        // A fault elsewhere must be readable, so the terminal is given back before it is told.
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            give_back();
            before(info);
        }));
        enable_raw_mode()?;
        let entered = execute!(stderr(), EnterAlternateScreen, cursor::Hide)
            .and_then(|()| Terminal::new(CrosstermBackend::new(stderr())));
        match entered {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Best effort: a terminal that is gone needs nothing.
fn give_back() {
    let _ = disable_raw_mode();
    let _ = execute!(stderr(), LeaveAlternateScreen, cursor::Show);
}

/// What one frame shows.
struct Picture {
    snapshot: Snapshot,
    recent: Vec<Recent>,
    seen: Seen,
    troubles: Vec<(Cause, String)>,
}

struct View<'a> {
    course: &'a Course,
    style: present::Style,
    history: History,
    sends: Sends,
}

impl View<'_> {
    fn look(&mut self, scene: &Scene) -> Picture {
        let snapshot = scene.live.snapshot();
        self.history.look(&snapshot);
        Picture {
            recent: scene.live.recent(snapshot.now.unwrap_or_default().saturating_since(RECENT)),
            troubles: behind(&scene.live, &scene.watch, &mut self.sends),
            seen: scene.watch.last(),
            snapshot,
        }
    }

    fn draw(&self, frame: &mut Frame, picture: &Picture) {
        let server = picture.seen.server.is_some();
        let width = usize::from(frame.area().width).saturating_sub(2).max(1);
        let health: usize = 2 + self.client(picture).iter().map(|l| l.width().div_ceil(width)).sum::<usize>();
        let [title, bar, main, client, server_at, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(2),
            Constraint::Min(8),
            Constraint::Length(health.min(8) as u16),
            Constraint::Length(if server { 3 } else { 0 }),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let name = self.bold(format!("inferometer  {}", self.course.title));
        frame.render_widget(Paragraph::new(name), title);
        self.progress(frame, bar, picture);
        let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(41)]).areas(main);
        self.requests(frame, left, picture);
        self.latencies(frame, right, picture);
        let lines = self.client(picture);
        let text = Paragraph::new(lines).wrap(Wrap { trim: false }).block(self.block("this client"));
        frame.render_widget(text, client);
        if server {
            frame.render_widget(Paragraph::new(self.server(picture)).block(self.block("server")), server_at);
        }
        let hint = "q or Ctrl-C ends the measurement here and reports what there is";
        frame.render_widget(Paragraph::new(self.dim(hint.to_owned())), foot);
    }

    fn progress(&self, frame: &mut Frame, area: Rect, picture: &Picture) {
        let (share, place) = self.course.place(&picture.snapshot);
        let width = usize::from(area.width).saturating_sub(place.chars().count() + 2).clamp(10, 60);
        let full = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
        let (on, off) = if self.style.ascii { ("#", "-") } else { ("━", "─") };
        let line = Line::from(vec![
            Span::styled(on.repeat(full), self.tone(Color::Blue)),
            Span::styled(off.repeat(width - full), self.faint()),
            Span::raw(self.plain(format!("  {place}"))),
        ]);
        frame.render_widget(Paragraph::new(line), area);
    }

    fn requests(&self, frame: &mut Frame, area: Rect, picture: &Picture) {
        let s = &picture.snapshot;
        let block = self.block("requests, each second");
        let inside = block.inner(area);
        frame.render_widget(block, area);
        let bad = s.failed + s.timed_out;
        let rows = [
            ("sent", count(s.sent), &self.history.sent, Color::Blue),
            ("in flight", count(u64::from(s.in_flight)), &self.history.in_flight, Color::Blue),
            ("done", count(s.ok), &self.history.done, Color::Green),
            ("failed", count(bad), &self.history.failed, Color::Red),
        ];
        let areas: [Rect; 4] =
            Layout::vertical([Constraint::Fill(1); 4]).spacing(u16::from(inside.height >= 7)).areas(inside);
        for ((name, value, series, color), area) in rows.into_iter().zip(areas) {
            let [label, curve] =
                Layout::horizontal([Constraint::Length(20), Constraint::Fill(1)]).areas(area);
            let label_line =
                Rect { y: label.y + label.height.saturating_sub(1), height: label.height.min(1), ..label };
            let color = if name == "failed" && bad == 0 { Color::DarkGray } else { color };
            frame.render_widget(Paragraph::new(format!("{name:<9} {value:>9}")), label_line);
            let shown = series.iter().rev().take(usize::from(curve.width)).rev().copied();
            let line = Sparkline::default()
                .data(shown.collect::<Vec<u64>>())
                .bar_set(self.levels())
                .style(self.tone(color));
            frame.render_widget(line, curve);
        }
    }

    fn latencies(&self, frame: &mut Frame, area: Rect, picture: &Picture) {
        let now = picture.snapshot.now.unwrap_or_default();
        let spell = now.0.clamp(1, RECENT.0) as f64 / 1e9;
        let mut lines = vec![self.dim(format!("{:<6}{:>10} {:>10} {:>10}", "", "p50", "p95", "p99"))];
        let of = |value: fn(&Recent) -> Nanos| picture.recent.iter().map(value).filter(|t| t.0 > 0).collect();
        for (name, values) in [("TTFT", of(|r| r.ttft)), ("TPOT", of(|r| r.tpot))] {
            lines.push(Line::raw(self.plain(percentiles(name, values))));
        }
        let tokens: u64 = picture.recent.iter().map(|r| r.tokens).sum();
        lines.push(Line::raw(""));
        lines.push(Line::raw(format!("{:>10} requests/s done", number(picture.recent.len() as f64 / spell))));
        lines.push(Line::raw(format!("{:>10} output tokens/s", number(tokens as f64 / spell))));
        if picture.snapshot.timed_out > 0 {
            lines.push(Line::raw(format!("{:>10} timed out", count(picture.snapshot.timed_out))));
        }
        frame.render_widget(Paragraph::new(lines).block(self.block("done in the last 10 s")), area);
    }

    /// Whether this side keeps up, why not, and its figures.
    fn client(&self, picture: &Picture) -> Vec<Line<'static>> {
        let seen = &picture.seen;
        let mut lines = Vec::new();
        if picture.troubles.is_empty() {
            let sign = if self.style.ascii { "ok" } else { "✓" };
            lines.push(Line::from(vec![
                Span::styled(format!("{sign} "), self.tone(Color::Green)),
                Span::raw("keeps up"),
            ]));
        }
        let sign = if self.style.ascii { "!" } else { "✕" };
        for (_, text) in &picture.troubles {
            lines.push(Line::styled(self.plain(format!("{sign} {text}")), self.tone(Color::Red)));
        }
        let known = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
        let (_, late, worst) = self.sends.recent();
        lines.push(self.dim(format!(
            "busiest lane {}   heartbeat {}   late sends {} (worst {})",
            known(seen.busiest().map(percent)),
            known(seen.heartbeat().map(|h| time(h.0 as f64))),
            count(late),
            time(worst.0 as f64),
        )));
        lines.push(self.dim(format!(
            "other work {} of all cores   steal {}   journal {}",
            known(seen.slice.map(|s| percent(s.others))),
            known(seen.slice.map(|s| percent(s.steal))),
            journal_words(seen.waiting).unwrap_or_else(|| "follows".to_owned()),
        )));
        lines
    }

    fn server(&self, picture: &Picture) -> Line<'static> {
        let Some(s) = picture.seen.server else { return Line::raw("") };
        let whole = |value: Option<f64>| value.map_or("–".to_owned(), |v| count(v.max(0.0).round() as u64));
        let cache = s.kv_usage.map_or(String::new(), |share| format!("   KV cache {}", percent(share)));
        let text = format!(
            "running {}   waiting {}   ours {}{cache}   as of {}",
            whole(s.running),
            whole(s.waiting),
            count(u64::from(s.ours_in_flight)),
            clock_time(s.at)
        );
        Line::raw(self.plain(text))
    }

    fn block(&self, title: &'static str) -> Block<'static> {
        let ascii = symbols::border::Set {
            top_left: "+",
            top_right: "+",
            bottom_left: "+",
            bottom_right: "+",
            vertical_left: "|",
            vertical_right: "|",
            horizontal_top: "-",
            horizontal_bottom: "-",
        };
        let set = if self.style.ascii { ascii } else { symbols::border::ROUNDED };
        Block::bordered().border_set(set).border_style(self.faint()).title(Span::raw(format!(" {title} ")))
    }

    fn levels(&self) -> symbols::bar::Set<'static> {
        let ascii = symbols::bar::Set {
            full: "#",
            seven_eighths: "#",
            three_quarters: "=",
            five_eighths: "=",
            half: "-",
            three_eighths: "-",
            one_quarter: ".",
            one_eighth: ".",
            empty: " ",
        };
        if self.style.ascii { ascii } else { symbols::bar::NINE_LEVELS }
    }

    fn tone(&self, color: Color) -> Style {
        if self.style.color { Style::new().fg(color) } else { Style::new() }
    }
    fn faint(&self) -> Style {
        self.tone(Color::DarkGray)
    }
    fn bold(&self, text: String) -> Line<'static> {
        Line::styled(self.plain(text), Style::new().add_modifier(Modifier::BOLD))
    }
    fn dim(&self, text: String) -> Line<'static> {
        Line::styled(self.plain(text), self.faint())
    }
    /// In ASCII where that was asked for; a space that does not break is one cell all the same.
    fn plain(&self, text: String) -> String {
        self.style.plain(&text).replace(NBSP, " ")
    }
}

/// `TTFT   120 ms …` by nearest rank, for the eye; the report has the exact ones.
fn percentiles(name: &str, mut values: Vec<Nanos>) -> String {
    values.sort_unstable();
    let at = |p: usize| match values.len() {
        0 => "–".to_owned(),
        n => time(values[(n * p).div_ceil(100).max(1) - 1].0 as f64),
    };
    format!("{name:<6}{:>10} {:>10} {:>10}", at(50), at(95), at(99))
}

/// Counters second by second.
#[derive(Default)]
struct History {
    second: u64,
    before: Snapshot,
    sent: VecDeque<u64>,
    in_flight: VecDeque<u64>,
    done: VecDeque<u64>,
    failed: VecDeque<u64>,
}

impl History {
    /// Takes a new second into the curves once it has begun; seconds that nobody looked at share what came in them.
    fn look(&mut self, s: &Snapshot) {
        let second = s.now.unwrap_or_default().0 / 1_000_000_000;
        let passed = second.saturating_sub(self.second);
        if passed == 0 {
            return;
        }
        let bad = |s: &Snapshot| s.failed + s.timed_out;
        let grown = [
            (&mut self.sent, s.sent - self.before.sent),
            (&mut self.done, s.ok - self.before.ok),
            (&mut self.failed, bad(s) - bad(&self.before)),
        ];
        for (series, more) in grown {
            push(series, more / passed, passed);
        }
        push(&mut self.in_flight, u64::from(s.in_flight), passed);
        (self.second, self.before) = (second, *s);
    }
}

fn push(series: &mut VecDeque<u64>, value: u64, times: u64) {
    for _ in 0..times.min(MEMORY as u64) {
        series.push_back(value);
    }
    while series.len() > MEMORY {
        series.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use plan::Plan;
    use ratatui::backend::TestBackend;
    use record::{Entry, LaneSample, ServerSample, Waiting};

    use super::*;
    use crate::run::watch::Watch;

    fn screen(width: u16, height: u16, style: present::Style, stall_ms: u64) -> Vec<String> {
        let draft = spec::Draft::from_text("t", "target: http://10.0.0.5:8000\nload: {rate: 6}\n").unwrap();
        let spec = draft.resolve().unwrap();
        let plan = Plan::with_lists(&spec, plan::Lists::default()).unwrap();
        let course = Course::new(&spec, &plan);
        let watch = Watch::new(true);
        let lane = LaneSample {
            lane: 0,
            from: Nanos::from_millis(14_750),
            to: Nanos::from_secs(15),
            busy: Nanos::from_millis(30),
            heartbeat_max: Nanos::from_millis(stall_ms),
            heartbeats: 50,
            in_flight: 3,
        };
        watch.note(&Entry::Lane(lane), Waiting::default());
        let server = ServerSample { running: Some(3.0), waiting: Some(0.0), ..ServerSample::default() };
        watch.note(&Entry::Server(server), Waiting::default());
        let mut view = View { course: &course, style, history: History::default(), sends: Sends::default() };
        let at = |second: u64| Snapshot {
            now: Some(Nanos::from_secs(second)),
            sent: 6 * second,
            in_flight: 3,
            ok: 6 * second - 3.min(6 * second),
            ..Snapshot::default()
        };
        (0..=15).for_each(|second| view.history.look(&at(second)));
        let recent = Recent {
            ttft: Nanos::from_millis(101),
            tpot: Nanos::from_micros(10_050),
            tokens: 64,
            ..Recent::default()
        };
        let live = wire::Live::new();
        let troubles = behind(&live, &watch, &mut view.sends);
        let picture = Picture { snapshot: at(15), recent: vec![recent; 60], seen: watch.last(), troubles };
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| view.draw(frame, &picture)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(row).collect()
    }

    fn style(ascii: bool) -> present::Style {
        present::Style { color: false, ascii, width: 80 }
    }

    #[test]
    fn a_small_terminal_shows_everything() {
        let rows = screen(80, 24, style(false), 1);
        let text = rows.join("\n");
        for part in [
            "10.0.0.5:8000",
            "measure 0:12 of 0:30",
            "in flight         3",
            "TTFT",
            "101 ms",
            "keeps up",
            "busiest lane 12",
            "running 3   waiting 0",
            "q or Ctrl-C",
        ] {
            assert!(text.contains(part), "`{part}` in\n{text}");
        }
        // Three more seconds in flight are a curve, not a number alone.
        assert!(rows.iter().any(|row| row.contains("in flight") && row.contains('█')), "{text}");
    }

    #[test]
    fn trouble_is_told_with_its_figure() {
        let text = screen(80, 24, style(false), 60).join("\n");
        assert!(text.contains("✕ a sending thread stood still for 60.0"), "{text}");
        assert!(!text.contains("keeps up"), "{text}");
    }

    #[test]
    fn ascii_is_ascii_and_no_size_panics() {
        let text = screen(120, 40, style(true), 60).join("");
        assert!(text.is_ascii(), "{text}");
        for (width, height) in [(1, 1), (10, 3), (20, 50), (300, 8)] {
            screen(width, height, style(false), 60);
        }
    }

    #[test]
    fn curves_hold_what_came_in_each_second() {
        let mut history = History::default();
        let at =
            |ms: u64, sent: u64| Snapshot { now: Some(Nanos::from_millis(ms)), sent, ..Snapshot::default() };
        for (ms, sent) in [(0, 0), (500, 3), (1_000, 6), (1_500, 7), (2_250, 10), (4_000, 14)] {
            history.look(&at(ms, sent));
        }
        assert_eq!(history.sent, [6, 4, 2, 2]);
    }
}
