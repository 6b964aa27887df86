//! Where a turn is shown, and where its permissions are asked.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use client::{
    Direction, FrameTap, Handler, OptionKind, PermissionAnswer, PermissionAsk, PermissionOption,
    SessionUpdate,
};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::render::Renderer;
use super::tty::Tty;
use crate::options::Color;
use crate::output;
use crate::sanitize::{visible, visible_line};

/// The screen of one run.
pub(crate) struct Screen {
    renderer: Arc<Mutex<Renderer>>,
    tty: Arc<OnceLock<Option<Tty>>>,
    /// Updates go to stdout as NDJSON and are not shown as text.
    json: bool,
    /// Why stdout did not take something.
    unwritten: OnceLock<String>,
}

impl Screen {
    pub(crate) fn new(color: Color, json: bool) -> Self {
        let renderer = Renderer::new(color.on(io::stderr().is_terminal()));
        Self {
            renderer: Arc::new(Mutex::new(renderer)),
            tty: Arc::default(),
            json,
            unwritten: OnceLock::new(),
        }
    }

    /// A line of our own.
    pub(crate) fn note(&self, label: &str, text: &str) {
        output::stderr(&lock(&self.renderer).note(label, text));
    }

    /// A line of the agent's log.
    pub(crate) fn log_line(&self, line: &str) {
        let mut renderer = lock(&self.renderer);
        output::stderr(&format!("{}{}\n", renderer.close(), visible(line)));
    }

    /// Shows every frame.
    pub(crate) fn frame_tap(&self) -> FrameTap {
        let renderer = Arc::clone(&self.renderer);
        Arc::new(move |direction, frame| {
            let arrow = match direction {
                Direction::ToAgent => "->",
                Direction::FromAgent => "<-",
            };
            let mut renderer = lock(&renderer);
            output::stderr(&format!("{}{arrow} {}\n", renderer.close(), visible_line(frame)));
        })
    }

    /// The turn has ended: says so, and hands over the answer. `false`: stdout did not take it.
    pub(crate) fn finish(&self, reason: &str) -> bool {
        if self.json {
            self.json_line(&json!({"stopReason": reason}));
            return self.delivered();
        }
        self.note("end", reason);
        // On one terminal the answer has just been shown.
        if output::stdout_is_terminal() && io::stderr().is_terminal() {
            return true;
        }
        let mut answer = lock(&self.renderer).answer().to_owned();
        if answer.is_empty() {
            return true;
        }
        if !answer.ends_with('\n') {
            answer.push('\n');
        }
        // Data for another program stays as it is; a terminal gets no foreign control characters.
        let written = if output::stdout_is_terminal() {
            output::stdout(&visible(&answer))
        } else {
            output::stdout(&answer)
        };
        self.keep(written);
        self.delivered()
    }

    /// Remembers the first thing that could not be written.
    fn keep(&self, written: io::Result<()>) {
        if let Err(error) = written {
            self.unwritten.get_or_init(|| error.to_string());
        }
    }

    /// Whether stdout took everything; says on stderr if not.
    fn delivered(&self) -> bool {
        if let Some(error) = self.unwritten.get() {
            output::stderr(&format!("error: the answer could not be written to stdout: {error}\n"));
        }
        self.unwritten.get().is_none()
    }

    /// The turn failed.
    pub(crate) fn fail(&self, text: &str, error: &Value) {
        if self.json {
            self.json_line(&json!({"error": error}));
        }
        let mut renderer = lock(&self.renderer);
        output::stderr(&format!("{}{text}", renderer.close()));
    }

    fn json_line(&self, value: &Value) {
        // A reader that has gone away is told nothing more; the turn goes on to its end.
        if self.unwritten.get().is_none() {
            self.keep(output::stdout(&format!("{value}\n")));
        }
    }
}

fn lock(renderer: &Mutex<Renderer>) -> MutexGuard<'_, Renderer> {
    renderer.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Handler for Screen {
    fn update(&self, update: SessionUpdate) {
        if self.json {
            self.json_line(&json!({"sessionId": update.session, "update": update.raw}));
        }
        // Rendered even when it is not shown: a permission refers to what was said of its tool before.
        let text = lock(&self.renderer).update(&update.update);
        if !self.json {
            output::stderr(&text);
        }
    }

    fn permission(&self, ask: PermissionAsk) -> BoxFuture<'static, PermissionAnswer> {
        let tty = Arc::clone(&self.tty);
        let renderer = Arc::clone(&self.renderer);
        Box::pin(async move {
            let Some(tty) = tty.get_or_init(Tty::open) else {
                let text = lock(&renderer).permission(&ask);
                output::stderr(&text);
                output::stderr(&lock(&renderer).note("permission", "denied: there is no terminal to ask on"));
                return deny(&ask.options);
            };
            let question = format!("{}{}", lock(&renderer).permission(&ask), menu(&ask.options));
            let line = tty.ask(&question).await.unwrap_or_default();
            let (answer, said) = match choose(&ask.options, &line) {
                Some(option) => (PermissionAnswer::Selected(option.id.clone()), option.name.clone()),
                None => (deny(&ask.options), "denied".to_owned()),
            };
            output::stderr(&lock(&renderer).note("permission", &said));
            answer
        })
    }
}

fn menu(options: &[PermissionOption]) -> String {
    let mut out = String::new();
    for (number, option) in options.iter().enumerate() {
        let _ = writeln!(out, "  {}) {}", number + 1, visible_line(&option.name));
    }
    out.push_str("  Your choice (Enter denies): ");
    out
}

/// What a typed line means. Only an exact number, or y and n, is a choice.
fn choose<'a>(options: &'a [PermissionOption], line: &str) -> Option<&'a PermissionOption> {
    let of_kind = |kind| options.iter().find(|option| option.kind == kind);
    match line.trim() {
        "y" | "Y" | "yes" => of_kind(OptionKind::AllowOnce),
        "n" | "N" | "no" => of_kind(OptionKind::RejectOnce),
        number => options.get(number.parse::<usize>().ok()?.checked_sub(1)?),
    }
}

/// A denial: the offered one, or no choice when none is offered.
fn deny(options: &[PermissionOption]) -> PermissionAnswer {
    let find = |kind| options.iter().find(|option| option.kind == kind);
    match find(OptionKind::RejectOnce).or_else(|| find(OptionKind::RejectAlways)) {
        Some(option) => PermissionAnswer::Selected(option.id.clone()),
        None => PermissionAnswer::Cancelled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Vec<PermissionOption> {
        [("a", OptionKind::AllowAlways), ("b", OptionKind::AllowOnce), ("c", OptionKind::RejectOnce)]
            .map(|(id, kind)| PermissionOption { id: id.into(), name: id.to_uppercase(), kind })
            .to_vec()
    }

    #[test]
    fn only_an_exact_choice_allows() {
        let options = options();
        let chosen = |line| choose(&options, line).map(|option| option.id.as_str());
        assert_eq!(chosen("1"), Some("a"));
        assert_eq!(chosen(" 2 "), Some("b"));
        assert_eq!(chosen("y"), Some("b"));
        assert_eq!(chosen("n"), Some("c"));
        for line in ["", "0", "4", "-1", "1x", "allow", "yy", "99999999999999999999"] {
            assert_eq!(chosen(line), None, "{line:?}");
        }
    }

    #[test]
    fn a_denial_is_an_offered_one_if_there_is_one() {
        let options = options();
        assert_eq!(deny(&options), PermissionAnswer::Selected("c".into()));
        assert_eq!(deny(&options[..2]), PermissionAnswer::Cancelled);
    }
}
